"""Large values in functions of the official SDK."""

from typing import Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration, StepConfig, StepSemantics


@durable_execution
def once(event: dict[str, Any], context: DurableContext) -> int:
    """A large result, after the step's START was acknowledged."""
    config = StepConfig(step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
    return len(context.step(lambda _: "x" * event["size"], name="large", config=config))


@durable_execution
def quick(event: dict[str, Any], context: DurableContext) -> int:
    """A large result that is there before the step's START was sent."""
    return len(context.step(lambda _: "x" * event["size"], name="large"))


@durable_execution
def many(event: dict[str, Any], context: DurableContext) -> int:
    """More than fits into a request or an event, all of it there again after a suspension."""
    found = [context.step(lambda _: "x" * event["size"], name=f"step-{number}") for number in range(event["steps"])]
    context.wait(Duration.from_seconds(1))
    return sum(map(len, found))


@durable_execution
def returns(event: dict[str, Any], context: DurableContext) -> str:
    return "x" * int(event["size"])
