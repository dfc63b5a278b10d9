"""intake-worker: a message without personal data, for the model that classifies it."""

from typing import Any

from holdfast import WorkerContext, worker

MOST_SHOWN = 8_000


@worker("intake-worker.md")
async def intake(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Subject and text → redact → the message as the classifier may see it."""
    told = await ctx.tools.redact_pii(texts=[inputs["subject"], inputs["thread_text"]], names=_names(inputs["customer"]))
    subject, text = told["texts"]
    return {"message": {"subject": subject, "text": text[:MOST_SHOWN]}, "redacted": told["counts"]}


def _names(customer: dict[str, Any]) -> list[list[str]]:
    """The names that the shop knows, each in full and by its parts."""
    known = [name for name in (customer.get("name", ""), *customer.get("names", [])) if name.strip()]
    return [[name, *name.split()][:10] for name in known]
