"""order-processing: validate an order by rules and by a model, let a person approve it, place it, and wait until the shop accepts it."""

from criteria import CRITERIA, RULES

from holdfast import Pipeline

p = Pipeline("order-processing.md")

candidate = {"candidate": p.inputs.order, "rules": p.const(RULES), "criteria": CRITERIA, "on_error": "block"}
check = p.gate("check", "validator-worker", candidate)
shown = {"order": p.inputs.order, "warnings": check.reasons}
approval = p.human("approval", show=shown, question="Place this order?", after=check, within="2d")

placed = p.worker("place", "place-order-worker", {"order": approval.outputs.order}, undo="cancel-order-worker")
accepted = [{"path": ".state", "op": "equals", "value": "accepted"}]
shop = p.until("accepted", "order-status-worker", {"url": placed.outputs.url}, rules=accepted, at_most=5, every="2s")
p.gives(
    {
        "order_id": p.inputs.order.order_id,
        "url": placed.outputs.url,
        "state": shop.outputs.state,
        "approved_by": approval.decided_by,
    }
)
