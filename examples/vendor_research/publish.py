"""publish-worker and unpublish-worker: put a report on the server of reports, once, and take it back.

The tools run outside the sandbox. This example publishes on this machine only, and the tools refuse every other address.
"""

from typing import Any

from holdfast import ToolCall, WorkerContext, tool, worker

HERE = "http://127.0.0.1:"


@tool(effect="write")
def publish_report(call: ToolCall, address: str, report: dict[str, Any]) -> Any:
    """Publish a report."""
    if not address.startswith(HERE):
        raise call.refused(f"{address} is not on this machine.", "egress_denied")
    return call.http.post(address, json=report, headers={"Idempotency-Key": call.idempotency_key}).raise_for_status().json()


@publish_report.reconcile
def published_before(call: ToolCall, address: str, report: dict[str, Any]) -> Any:
    """The server remembers the key of each report."""
    found = call.http.get(address, params={"key": call.idempotency_key}).raise_for_status().json()
    return call.happened(found[0]) if found else call.did_not_happen()


@tool(effect="write")
def remove_report(call: ToolCall, url: str) -> dict[str, Any]:
    """Take a report back. A report that is not there any more counts as taken back."""
    if not url.startswith(HERE):
        raise call.refused(f"{url} is not on this machine.", "egress_denied")
    answer = call.http.delete(url)
    if answer.status_code != 404:
        answer.raise_for_status()
    return {"removed": answer.status_code != 404}


@remove_report.reconcile
def removed_before(call: ToolCall, url: str) -> Any:
    """A report that can still be read was not removed."""
    return call.happened({"removed": True}) if call.http.get(url).status_code == 404 else call.did_not_happen()


@worker("publish-worker.md")
async def publish(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Address → publish → where it is."""
    address = await ctx.tools.parameter_store(name="/publish-worker/address")
    made = await ctx.tools.publish_report(address=address, report=inputs["report"])
    return {"report_id": made["id"], "url": made["url"]}


@worker("unpublish-worker.md")
async def unpublish(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Take back what publish-worker did: it gets the inputs and outputs of that run."""
    told = await ctx.tools.remove_report(url=inputs["outputs"]["url"])
    return {"removed": told["removed"]}
