"""Durable handlers for the official Python SDK, any version of it, as tests of the runtime host deploy them."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration


@durable_execution
def steps(event: Any, context: DurableContext) -> Any:
    """So many steps, one after the other."""
    return sum(context.step(_gives(number), name=f"step-{number}") for number in range(event))


@durable_execution
def counts(event: Any, context: DurableContext) -> Any:
    """So many steps that leave a mark each; it says who runs it, so that it can be killed."""
    sys.stdout.write(f"pid {os.getpid()}\n")
    return [context.step(_marks(event["folder"], f"{event['name']}-{number}"), name=f"step-{number}") for number in range(event["steps"])]


@durable_execution
def measures(event: Any, context: DurableContext) -> Any:
    """How long its input is, after a wait."""
    context.wait(Duration.from_seconds(1))
    return context.step(lambda _: len(event), name="measure")


@durable_execution
def order(event: Any, context: DurableContext) -> Any:
    """Steps, a child context, a wait, and branches beside each other."""
    reserved = context.step(lambda _: {"reserved": event["items"]}, name="reserve")
    context.wait(Duration.from_seconds(1), name="settle")

    def pack(child: DurableContext) -> Any:
        return child.step(lambda _: f"{len(event['items'])} packed", name="pack")

    packed = context.run_in_child_context(pack, name="packing")
    sent = context.parallel([lambda branch: branch.step(lambda _: "mail"), lambda branch: branch.step(lambda _: "text")], name="tell")
    return {**reserved, "packed": packed, "told": sent.get_results()}


@durable_execution
def approval(event: Any, context: DurableContext) -> Any:
    """Wait for the answer to a callback."""
    callback = context.create_callback(name="approve")
    context.step(lambda _: bool(callback.callback_id), name="ask")
    return {"answer": callback.result()}


@durable_execution
def fails(event: Any, context: DurableContext) -> Any:
    """Raise what the caller wants."""
    raise ValueError(event)


@durable_execution
def dies_once(event: Any, context: DurableContext) -> Any:
    """Its process is killed in the middle of its second step, the first time."""
    first = context.step(lambda _: _counted(event["folder"], "first"), name="first")

    def second(_: Any) -> int:
        count = _counted(event["folder"], "second")
        if count == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    return [first, context.step(second, name="second")]


@durable_execution
def hangs(event: Any, context: DurableContext) -> Any:
    """Work in a step until it is killed, the first time; count how often its steps ran."""
    first = context.step(lambda _: _counted(event["folder"], "first"), name="first")

    def second(_: Any) -> int:
        count = _counted(event["folder"], "second")
        if count == 1:
            with open(os.path.join(event["folder"], "pid"), "w") as file:
                file.write(str(os.getpid()))
            threading.Event().wait()
        return count

    return [first, context.step(second, name="second")]


@durable_execution
def remembers(event: Any, context: DurableContext) -> Any:
    """So many results of so many characters, then a wait: a state of more than one page."""
    for number in range(event["steps"]):
        context.step(_gives(chr(97 + number) * event["size"]), name=f"step-{number}")
    context.wait(Duration.from_seconds(1))
    return [context.step(lambda _: "after", name="last"), context.step(lambda _: sys.version_info[0], name="version")]


@durable_execution
def large(event: Any, context: DurableContext) -> Any:
    """A result of so many characters."""
    return "x" * event


@durable_execution
def tells(event: Any, context: DurableContext) -> Any:
    """Log something in a step."""
    context.logger.warning("outside of steps")
    return context.step(lambda step: step.logger.warning("inside"), name="telling")


@durable_execution
def invokes(event: Any, context: DurableContext) -> Any:
    """Let another function do it."""
    return context.invoke(event["function"], event["payload"], name="call")


def _gives(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _marks(folder: str, what: str) -> Callable[[Any], Any]:
    return lambda _: _counted(folder, what)


def _counted(folder: str, what: str) -> int:
    with open(os.path.join(folder, what), "a") as file:
        file.write("x")
    return os.path.getsize(os.path.join(folder, what))


@durable_execution
def which_sdk(event: Any, context: DurableContext) -> Any:
    """The version of the SDK that runs this, from the folder it was loaded from."""
    from importlib.metadata import distributions

    folder = os.path.dirname(os.path.dirname(sys.modules[durable_execution.__module__].__file__ or ""))
    return next(found.version for found in distributions(name="aws-durable-execution-sdk-python", path=[folder]))
