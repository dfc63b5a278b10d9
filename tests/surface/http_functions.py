"""Functions that the tests of the server run."""

from __future__ import annotations

from typing import Any

from holdfast.durable import durable_execution
from holdfast.durable.config import CallbackConfig, Duration, StepConfig
from holdfast.durable.retries import RetryPresets

ONCE = StepConfig(retry_strategy=RetryPresets.none())


@durable_execution(execution_timeout=900)
def echo(event: Any, context: Any) -> Any:
    """Gives back what it got."""
    return event


@durable_execution(execution_timeout=900, retention_days=3)
def steps(event: Any, context: Any) -> Any:
    """So many steps."""
    return [context.step(lambda _, n=n: n, name=f"step-{n}") for n in range(event["steps"])]


@durable_execution(execution_timeout=900)
def bulky(event: Any, context: Any) -> Any:
    """So many steps of nearly a megabyte each."""
    return sum(len(context.step(lambda _: "x" * 900_000, name=f"step-{n}")) for n in range(event["steps"]))


@durable_execution(execution_timeout=900)
def sleepy(event: Any, context: Any) -> Any:
    """Is suspended in between."""
    context.wait(Duration.from_seconds(300), name="nap")
    return "rested"


@durable_execution(execution_timeout=900)
def failing(event: Any, context: Any) -> Any:
    """Fails."""
    raise ValueError("no luck")


@durable_execution(execution_timeout=900)
def asking(event: Any, context: Any) -> Any:
    """Waits for a callback, and returns its answer."""
    return context.create_callback("ask", CallbackConfig(heartbeat_timeout=Duration.from_hours(1))).result()


@durable_execution
def endless(event: Any, context: Any) -> Any:
    """May take a year."""
    return context.create_callback("for ever").result()


@durable_execution(name="versioned", version=1, execution_timeout=900)
def versioned_1(event: Any, context: Any) -> Any:
    """The first."""
    return "one"


@durable_execution(name="versioned", version=2, execution_timeout=900)
def versioned_2(event: Any, context: Any) -> Any:
    """The second."""
    return "two"


@durable_execution(execution_timeout=900)
def calling(event: Any, context: Any) -> Any:
    """Invokes another function."""
    return context.invoke(event["function"], event["payload"], name="call")


ALL = [echo, steps, bulky, sleepy, failing, asking, endless, versioned_1, versioned_2, calling]
