"""Errors of verbs.

What the verbs of an engine, a client and the testing kit raise. Every error of Holdfast is a `HoldfastError` with a `code` that does not
change; [errors.md](../errors.md) explains each code. The family of an error says what the caller can do about it. A verb may raise further
errors of a family: catch the family to catch them too. Inside a durable function, [other errors](errors.md) are raised.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast import (
    AccessRefused,
    AesGcm,
    ApprovalNotFound,
    CallbackClosed,
    CallbackNotFound,
    Client,
    CodecFailed,
    DeliveryFailed,
    DurableContext,
    Duration,
    EngineClosed,
    ExecutionAlreadyStarted,
    ExecutionFailed,
    ExecutionNotFound,
    ExecutionQuarantined,
    ExecutionStopped,
    ExecutionTimedOut,
    ExportInvalid,
    ExtraMissing,
    Fatal,
    FunctionNotFound,
    HoldfastError,
    InvalidParameter,
    InvalidRequest,
    NodeNotFound,
    OperationNotFound,
    Overloaded,
    PatternInvalid,
    PayloadNotJson,
    PayloadTooLarge,
    Pipeline,
    PipelineInvalid,
    QueueBusy,
    QueueFull,
    QueueNotFound,
    ReadTooLong,
    Rejected,
    RestartRefused,
    Retryable,
    RowDamaged,
    RunUnavailable,
    Schedule,
    ScheduleChanged,
    ScheduleInvalid,
    ScheduleNotFound,
    StoreNotFound,
    TooManyViews,
    Unsuccessful,
    durable_execution,
    replay,
)
from holdfast.signals import Webhook, verify
from holdfast.testing import NotYet, OperationMissing, Runner

folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "orders.db")


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    if event["amount"] < 0:
        raise ValueError("the amount is negative")
    return context.step(lambda step: f"receipt-{event['amount']}", name="charge")


@durable_execution
def approval(event: Any, context: DurableContext) -> Any:
    return context.create_callback(name="approval").result()


counting = Path(folder.name, "counting.py")
counting.write_text("""
from holdfast import Pipeline

p = Pipeline("counting", "1.0", inputs={"type": "object", "required": ["word"]}, outputs={"type": "object"})


def letters(inputs):
    return {"count": len(inputs["word"])}


counted = p.step("count", letters, {"word": p.inputs.word})
p.gives({"letters": counted.outputs.count})
""")


def opened() -> Any:
    """An engine on the store."""
    return holdfast.open(store, functions=[order, approval], queues=[holdfast.Queue("emails", most_waiting=1)])


client = Client.open(store, create=True)


# --- HoldfastError, Rejected, Retryable, Fatal, Unsuccessful
def advice(error: HoldfastError) -> str:
    match error:
        case Rejected():
            return "change the request"
        case Retryable():
            return "try again later"
        case Fatal():
            return "a person must look"
        case Unsuccessful():
            return f"the execution ended with {error.error_type}"
        case _:
            return error.code


assert advice(QueueFull("The queue is full.", 5)) == "try again later"

# --- ExecutionFailed, ExecutionStopped, ExecutionTimedOut
with opened() as engine:
    try:
        engine.start(order, {"amount": -1}, name="order-1").result()
    except ExecutionFailed as error:
        assert (error.error_type, str(error)) == ("ValueError", "the amount is negative")
    waiting = engine.start(approval, name="ask-1")
    waiting.stop("the customer left")
    try:
        waiting.result()
    except (ExecutionStopped, ExecutionTimedOut) as error:
        assert str(error) == "the customer left"

# --- ExecutionAlreadyStarted, FunctionNotFound
with opened() as engine:
    engine.start(order, {"amount": 4}, name="order-2")
    try:
        engine.start(order, {"amount": 5}, name="order-2")  # the name was used, with another input
    except ExecutionAlreadyStarted as error:
        assert error.code == "execution_already_started"
    try:
        engine.start("ordr", {"amount": 5})
    except FunctionNotFound as error:
        assert "ordr" in str(error)

# --- PayloadNotJson, PayloadTooLarge
with opened() as engine:
    try:
        engine.start(order, {"amount": {1, 2}})  # JSON has no sets
    except PayloadNotJson as error:
        assert error.code == "payload_not_json"
    try:
        engine.start(order, {"amount": 5, "note": "x" * 7_000_000})
    except PayloadTooLarge as error:
        assert "6291456 bytes" in str(error)

# --- ExecutionNotFound, InvalidParameter
with opened() as engine:
    try:
        engine.get("no-such-id")
    except ExecutionNotFound as error:
        assert "no-such-id" in str(error)
    execution = engine.start(order, {"amount": 5}, name="order-3")
    execution.result()
    try:
        execution.release()  # it is closed, not in quarantine
    except InvalidParameter as error:
        assert error.code == "invalid_parameter"

# --- CallbackClosed, CallbackNotFound
with opened() as engine:
    asking = engine.start(approval, name="ask-2")
    while not (found := list(client.callbacks("approval"))):
        time.sleep(0.01)
    engine.succeed_callback(found[0].callback_id, '"yes"')
    try:
        engine.succeed_callback(found[0].callback_id, '"no"')
    except (CallbackClosed, CallbackNotFound) as error:
        assert error.code == "callback_closed"

# --- QueueFull, QueueNotFound
with opened() as engine:
    client.queues.pause("emails")  # it accepts executions, and admits none
    engine.enqueue(order, {"amount": 1}, queue="emails")
    try:
        engine.enqueue(order, {"amount": 2}, queue="emails")
    except QueueFull as error:
        assert error.retry_after_seconds > 0
try:
    client.queues.pause("email")
except QueueNotFound as error:
    assert "Did you mean `emails`?" in str(error)

# --- ScheduleInvalid, ScheduleNotFound
try:
    Schedule("nightly", order, cron="every night").definition()
except ScheduleInvalid as error:
    assert error.code == "schedule_invalid"
try:
    client.schedules.get("nightly")
except ScheduleNotFound as error:
    assert "nightly" in str(error)

# --- ApprovalNotFound
try:
    client.approvals.decide("no-such-approval", "approve")
except ApprovalNotFound as error:
    assert error.code == "approval_not_found"

# --- RestartRefused
with opened() as engine:
    try:
        engine.restart_execution(engine.start(approval, name="ask-3").id, "approval")
    except RestartRefused as error:
        assert error.code == "restart_refused"  # it has not ended


# --- EngineClosed, ExecutionQuarantined
async def closed() -> None:
    async with opened() as engine:
        waiting = asyncio.create_task((await engine.start(approval, name="ask-4")).result())
        await asyncio.sleep(0)  # now it waits
    try:
        await waiting
    except (EngineClosed, ExecutionQuarantined) as error:
        assert error.code == "engine_closed"


asyncio.run(closed())

# --- ExportInvalid
try:
    replay({"not": "an export"}, order)
except ExportInvalid as error:
    assert error.code == "export_invalid"

# --- StoreNotFound
try:
    Client.open(str(Path(folder.name) / "no-such.db"))
except StoreNotFound as error:
    assert "no-such.db" in str(error)

# --- CodecFailed
written = AesGcm({"2026": bytes(32)}, current="2026").encode("a secret", "here")
try:
    AesGcm({"2027": os.urandom(32)}, current="2027").decode(written, "here")
except CodecFailed as error:
    assert error.code == "codec_failed"

# --- InvalidRequest
with holdfast.open(store, workers=[counting]) as engine:
    try:
        engine.enqueue("counting", {}, queue="words")
    except InvalidRequest as error:
        assert error.error_code == "schema_mismatch"

# --- NodeNotFound
with holdfast.open(store, workers=[counting]) as engine:
    run = engine.enqueue("counting", {"word": "tea"}, queue="words")
    run.result()
    try:
        client.restarts.prepare(run.id, nodes="cuont")
    except NodeNotFound as error:
        assert "Its nodes are count." in str(error)

# --- OperationNotFound
with opened() as engine:
    execution = engine.start(order, {"amount": 7}, name="order-7")
    execution.result()
try:
    client.restarts.prepare_execution(execution.id, order, "chagre")
except OperationNotFound as error:
    assert "chagre" in str(error)

# --- PipelineInvalid
try:
    Pipeline("empty", "1.0", inputs={"type": "object"}, outputs={"type": "object"}).draft()
except PipelineInvalid as error:
    assert error.what

# --- AccessRefused
try:
    verify({"webhook-id": "1"}, b"{}", "whsec_" + "A" * 44, 0)
except AccessRefused as error:
    assert error.code == "access_refused"

# --- DeliveryFailed, PatternInvalid, ExtraMissing
try:
    Webhook("https://hooks.example/orders", "whsec_" + "A" * 44, pattern={"detail": "not a list"})
except (PatternInvalid, ExtraMissing) as error:
    assert error.code == "pattern_invalid"


def deliver(status: int) -> None:
    """What a subscriber of your own does: it raises, and the signal is delivered again later."""
    if status != 200:
        raise DeliveryFailed(f"The bus answered {status}.")


# --- ReadTooLong, TooManyViews, RowDamaged
for refused in (ReadTooLong(), TooManyViews(), RowDamaged()):  # what a store raises for the console
    assert refused.code in ("read_too_long", "too_many_views", "row_damaged")


# --- Overloaded, QueueBusy, ScheduleChanged
def patiently(change: Callable[[], object], tries: int = 5) -> None:
    """Try again: a server has no capacity now, or other processes change the same queue or schedule at this moment."""
    for wait in range(tries):
        try:
            change()
            return
        except (Overloaded, QueueBusy, ScheduleChanged):
            time.sleep(0.1 * 2**wait)
    raise TimeoutError("it stays busy")


with opened():
    patiently(lambda: client.queues.resume("emails"))


# --- RunUnavailable
@durable_execution
def asks(event: Any, context: DurableContext) -> str:
    try:
        return context.run("reviewer", {}).status
    except RunUnavailable as error:  # this engine was opened without workers
        return error.code


with holdfast.open(":memory:", functions=[asks]) as engine:
    assert engine.start(asks).result() == "run_unavailable"


# --- NotYet, OperationMissing
@durable_execution
def slow(event: Any, context: DurableContext) -> str:
    context.wait(Duration.from_days(1))
    return "done"


with Runner(slow) as runner:
    arn = runner.run_async()
    try:
        runner.wait_for_result(arn).get_step("charge")
    except OperationMissing as error:
        assert "charge" in str(error)
    try:
        runner.wait_for_callback(arn, timeout=0.1)
    except NotYet as error:
        assert error.code == "test_waited_in_vain"
