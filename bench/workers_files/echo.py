"""The worker that is measured: it gives back what it got."""

from typing import Any

from holdfast import WorkerContext, worker


@worker("echo.md")
async def echo(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """One call, nothing else."""
    return {"n": inputs["n"]}
