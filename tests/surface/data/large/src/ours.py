"""A large value in a function of Holdfast's own SDK."""

from typing import Any

from holdfast.durable import DurableContext, durable_execution


@durable_execution
def handler(event: dict[str, Any], context: DurableContext) -> int:
    """One that is there before the step's START was sent."""
    return len(context.step(lambda _: "x" * event["size"], name="large"))
