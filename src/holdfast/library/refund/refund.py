"""refund-worker: a model reads the case, a person approves, the payment happens once."""

from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker

@tool(effect="write", secrets=["PAY_KEY"], approval=True)          # outside the sandbox, with this one secret
def refund_payment(call: ToolCall, order_id: str, cents: int) -> dict:
    return call.http.post("https://pay.example/refunds", json={"order": order_id, "cents": cents}, headers={
        "Authorization": call.secret("PAY_KEY"), "Idempotency-Key": call.idempotency_key}).raise_for_status().json()

@worker("refund-worker.md")                                        # inside the sandbox; `def` works the same, without await
async def refund(inputs: dict, ctx: WorkerContext) -> dict:
    verdict = await ctx.tools.language_model(prompt=inputs["message"], schema=ctx.contract.defs["verdict"])
    if verdict["decision"] == "unclear":
        raise WorkerError("ambiguous_request", needs_human=True, partial={"verdict": verdict})
    paid = await ctx.tools.refund_payment(order_id=inputs["order_id"], cents=verdict["cents"])
    return {"refund_id": paid["id"]}
