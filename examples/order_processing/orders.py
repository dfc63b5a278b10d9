"""place-order-worker, cancel-order-worker and order-status-worker: an order at the shop, placed once, looked at, and taken back.

The tools run outside the sandbox. The shop of this example is on this machine, and the tools refuse every other address.
"""

from typing import Any

from holdfast import ToolCall, WorkerContext, tool, worker

HERE = "http://127.0.0.1:"
BUSY = 503


def _check(call: ToolCall, url: str) -> None:
    if not url.startswith(HERE):
        raise call.refused(f"{url} is not on this machine.", "egress_denied")


@tool(effect="write")
def place_order(call: ToolCall, address: str, order: dict[str, Any]) -> Any:
    """Place an order. A shop that is busy has done nothing, so the worker's next attempt may ask again."""
    _check(call, address)
    answer = call.http.post(address, json=order, headers={"Idempotency-Key": call.idempotency_key})
    if answer.status_code == BUSY:
        raise call.refused("The shop is busy.", "tool_unavailable")
    return answer.raise_for_status().json()


@place_order.reconcile
def placed_before(call: ToolCall, address: str, order: dict[str, Any]) -> Any:
    """The shop remembers the key of each order."""
    found = call.http.get(address, params={"key": call.idempotency_key}).raise_for_status().json()
    return call.happened(found[0]) if found else call.did_not_happen()


@tool(effect="write")
def cancel_order(call: ToolCall, url: str) -> dict[str, Any]:
    """Cancel an order. An order that is not there any more counts as cancelled."""
    _check(call, url)
    answer = call.http.delete(url)
    if answer.status_code != 404:
        answer.raise_for_status()
    return {"cancelled": answer.status_code != 404}


@cancel_order.reconcile
def cancelled_before(call: ToolCall, url: str) -> Any:
    """An order that the shop still has was not cancelled."""
    return call.happened({"cancelled": True}) if call.http.get(url).status_code == 404 else call.did_not_happen()


@tool(effect="read")
def order_status(call: ToolCall, url: str) -> Any:
    """What the shop says of an order."""
    _check(call, url)
    return call.http.get(url).raise_for_status().json()


@worker("place-order-worker.md")
async def place(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Address → place → where the order is."""
    address = await ctx.tools.parameter_store(name="/place-order-worker/address")
    made = await ctx.tools.place_order(address=address, order=inputs["order"])
    return {"url": made["url"]}


@worker("cancel-order-worker.md")
async def cancel(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Take back what place-order-worker did: it gets the inputs and outputs of that run."""
    told = await ctx.tools.cancel_order(url=inputs["outputs"]["url"])
    return {"cancelled": told["cancelled"]}


@worker("order-status-worker.md")
async def status(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Ask the shop."""
    told = await ctx.tools.order_status(url=inputs["url"])
    return {"state": told["state"]}
