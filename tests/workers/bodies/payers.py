"""Two workers that pay, one `async def` and one `def`, with tools that can and cannot find out what became of a lost call."""

from __future__ import annotations

from typing import Any

from holdfast import ToolCall, WorkerContext, tool, worker


def _paid(call: ToolCall, order: str) -> dict[str, Any]:
    shop = call.secret("SHOP")
    call.http.get(f"{shop}/before/{order}")
    answer = call.http.post(f"{shop}/pay/{order}", headers={"Idempotency-Key": call.idempotency_key}).raise_for_status().json()
    call.http.get(f"{shop}/answered/{order}")
    return {"paid": answer["paid"]}


def _found(call: ToolCall, order: str) -> Any:
    count = call.http.get(f"{call.secret('SHOP')}/effects/{call.idempotency_key}").raise_for_status().json()["count"]
    return call.happened({"paid": order}) if count else call.did_not_happen()


@tool(effect="write", secrets=["SHOP"])
def pay_known(call: ToolCall, order: str) -> dict[str, Any]:
    return _paid(call, order)


@pay_known.reconcile
def find_known(call: ToolCall, order: str) -> Any:
    return _found(call, order)


@tool(effect="write", secrets=["SHOP"])
def pay_blind(call: ToolCall, order: str) -> dict[str, Any]:
    return _paid(call, order)


@tool(effect="write", secrets=["SHOP"], approval=True)
def pay_known_asked(call: ToolCall, order: str) -> dict[str, Any]:
    return _paid(call, order)


@pay_known_asked.reconcile
def find_known_asked(call: ToolCall, order: str) -> Any:
    return _found(call, order)


@tool(effect="write", secrets=["SHOP"], approval=True)
def pay_blind_asked(call: ToolCall, order: str) -> dict[str, Any]:
    return _paid(call, order)


@worker("async-payer.md")
async def pays_async(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    paid = await ctx.tools[inputs["tool"]](order=inputs["order"])
    return {"paid": paid["paid"]}


@worker("plain-payer.md")
def pays_plainly(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    paid = ctx.tools[inputs["tool"]](order=inputs["order"])
    return {"paid": paid["paid"]}
