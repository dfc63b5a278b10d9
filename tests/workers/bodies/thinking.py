"""A worker that asks a language model so many times, one after the other."""

from __future__ import annotations

from typing import Any

from holdfast import WorkerContext, worker


@worker("thinking.md")
async def think(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    said = []
    for number in range(inputs["times"]):
        answer = await ctx.tools.language_model(prompt=f"{inputs['name']}/{number}", max_output_tokens=inputs["most"])
        said.append(answer)
    return {"said": said}
