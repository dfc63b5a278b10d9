"""ticket-worker: open one ticket at the desk, whatever is killed in between.

The tool runs outside the sandbox. This example opens tickets on this machine only, and the tool refuses every other address.
"""

from typing import Any

from holdfast import ToolCall, WorkerContext, tool, worker

HERE = "http://127.0.0.1:"


@tool(effect="write")
def open_ticket(call: ToolCall, address: str, ticket: dict[str, Any]) -> Any:
    """Open a ticket. The desk knows the key of each ticket, and opens none twice."""
    if not address.startswith(HERE):
        raise call.refused(f"{address} is not on this machine.", "egress_denied")
    return call.http.post(address, json=ticket, headers={"Idempotency-Key": call.idempotency_key}).raise_for_status().json()


@open_ticket.reconcile
def opened_before(call: ToolCall, address: str, ticket: dict[str, Any]) -> Any:
    """The answer was lost: the desk itself knows."""
    found = call.http.get(address, params={"key": call.idempotency_key}).raise_for_status().json()
    return call.happened(found[0]) if found else call.did_not_happen()


@worker("ticket-worker.md")
async def ticket(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Address → open → where it is."""
    address = await ctx.tools.parameter_store(name="/ticket-worker/address")
    made = await ctx.tools.open_ticket(address=address, ticket=inputs["ticket"])
    return {"ticket_id": made["id"], "url": made["url"]}
