"""The engine.

`holdfast.open` gives an engine over a store. `async with` gives an `OpenEngine`, whose verbs are awaited; `with` gives a
`BlockingEngine`, which has the same verbs without `await`. `start`, `get`, `list`, `describe` and `history` answer with objects.
`Client`, on [a page of its own](client.md), looks at a store from a process that runs no functions.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from typing import Any

import holdfast
from holdfast import (
    AesGcm,
    BlockingEngine,
    BlockingExecution,
    Client,
    Clock,
    DurableContext,
    Duration,
    ExecutionStatus,
    Filter,
    HistoryEvent,
    Limits,
    OpenEngine,
    OpenExecution,
    PayloadCodec,
    Replayed,
    Schedule,
    Settings,
    StatusSignal,
    durable_execution,
    replay,
)
from holdfast.testing import VirtualClock

folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "orders.db")


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: f"receipt-{event['id']}", name="charge")


mails: Queue[str] = Queue()


@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    callback = context.create_callback(name="approval")
    context.step(lambda step: mails.put(callback.callback_id), name="mail")
    return callback.result()


counting = Path(folder.name, "counting.py")
counting.write_text("""
from holdfast import Pipeline

p = Pipeline("counting", "1.0", inputs={"type": "object"}, outputs={"type": "object"})


def letters(inputs):
    return {"count": len(inputs["word"])}


counted = p.step("count", letters, {"word": p.inputs.word})
p.gives({"letters": counted.outputs.count})
""")

# --- Queue, Limits
emails = holdfast.Queue(
    "emails",
    at_once=20,  # runs of the whole queue at the same time
    rates="100/m",  # and at most a hundred a minute that begin
    per_tenant=Limits(at_once=5),  # no tenant takes more than five of the twenty
    most_waiting=10_000,  # one more is refused with `overloaded`
    ttl="1h",  # what has waited an hour expires
)
with holdfast.open(store, functions=[order, asking], queues=[emails]), Client.open(store) as operator:
    assert operator.queues.get("emails").settings.most_waiting == 10_000  # the queue is declared in the store
    operator.queues.pause("emails")  # it accepts executions, and admits none
    operator.queues.resume("emails")

# --- Schedule
nightly = Schedule("nightly", order, cron="0 2 * * *", zone="Europe/Berlin", input={"id": 7})

with holdfast.open(store, functions=[order], schedules=[nightly]), Client.open(store) as operator:
    operator.schedules.pause("nightly")
    assert [(state.name, state.paused) for state in operator.schedules.list()] == [("nightly", True)]
    operator.schedules.resume("nightly")

# --- open, BlockingEngine, BlockingExecution
with holdfast.open(store, functions=[order, asking]) as engine:
    assert isinstance(engine, BlockingEngine)
    execution: BlockingExecution = engine.start(order, {"id": 42}, name="order-42")
    assert execution.result() == "receipt-42"


# --- OpenEngine, OpenEngine.start, OpenExecution, OpenExecution.result, OpenExecution.status
async def started(engine: OpenEngine) -> None:
    execution: OpenExecution = await engine.start(order, {"id": 43}, name="order-43")
    assert await execution.result() == "receipt-43"
    assert await execution.status() is ExecutionStatus.SUCCEEDED
    again = await engine.start(order, {"id": 43}, name="order-43")  # the same name and input: the same execution
    assert again.id == execution.id


async def main() -> None:
    async with holdfast.open(store, functions=[order, asking]) as engine:
        await started(engine)


asyncio.run(main())


# --- OpenEngine.enqueue, OpenEngine.enqueue_many
with holdfast.open(":memory:", functions=[order], queues=[holdfast.Queue("emails", at_once=20)]) as engine:
    one = engine.enqueue(order, {"id": 44}, queue="emails", idempotency_key="order-44", key="customer-7")
    assert one.result() == "receipt-44"
    many = engine.enqueue_many(order, [{"id": number} for number in range(1000)], queue="emails", ttl=3600)
    assert len(many) == 1000  # they are on disk, and begin as the limits of the queue allow


# --- OpenEngine.redrive
is_bank_open = False


@durable_execution
def charge(event: Any, context: DurableContext) -> str:
    if not is_bank_open:
        raise ConnectionError("the bank is closed")
    return "charged"


with holdfast.open(":memory:", functions=[charge]) as engine:
    failed = engine.enqueue(charge, {"id": 45}, queue="charges", idempotency_key="charge-45")
    try:
        failed.result()
    except holdfast.HoldfastError:
        is_bank_open = True  # the run is parked, and waits for a person
    again = engine.redrive(failed.id)  # under the same key
    assert again.result() == "charged"


# --- OpenEngine.restart_execution
@durable_execution
def shipping(event: Any, context: DurableContext) -> str:
    reserved = context.step(lambda _: "reserved", name="reserve")
    return context.step(lambda _: f"{reserved}, sent to {event['to']}", name="send")


with holdfast.open(":memory:", functions=[shipping]) as engine:
    first = engine.start(shipping, {"to": "Rome"}, name="order-46")
    assert first.result() == "reserved, sent to Rome"
    second = engine.restart_execution(first.id, "send", input={"to": "Pisa"})  # `reserve` does not run again
    assert second.result() == "reserved, sent to Pisa"
    assert (second.name, first.describe().superseded_by) == ("order-46", second.id)


# --- OpenEngine.get, OpenExecution.describe
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(order, {"id": 42}, name="order-42")
    assert execution.result() == "receipt-42"
    found = engine.get(execution.arn).describe()
assert (found.function, found.status, found.result) == ("order", "SUCCEEDED", "receipt-42")


# --- OpenEngine.list, Filter, ExecutionStatus
with holdfast.open(store, functions=[order, asking]) as engine:
    for number in (42, 43):
        engine.start(order, {"id": number}, name=f"order-{number}").result()
    ended = list(engine.list(Filter(function="order", statuses=(ExecutionStatus.SUCCEEDED,), limit=10)))
assert [execution.name for execution in ended] == ["order-43", "order-42"]


# --- OpenExecution.history, HistoryEvent
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(order, {"id": 42}, name="order-42")
    assert execution.result() == "receipt-42"
    events: Sequence[HistoryEvent] = execution.history()
assert [(event.number, event.type) for event in events[:2]] == [(1, "ExecutionStarted"), (2, "StepStarted")]
assert events[1].wire()["Name"] == "charge"


# --- OpenEngine.succeed_callback, OpenEngine.heartbeat_callback
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(asking, name="ask-1")
    callback_id = mails.get()
    engine.heartbeat_callback(callback_id)
    engine.succeed_callback(callback_id, "yes")
    assert execution.result() == "yes"


# --- OpenEngine.fail_callback
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(asking, name="ask-2")
    engine.fail_callback(mails.get(), "denied", "Refusal")
    try:
        execution.result()
    except holdfast.HoldfastError as error:
        assert "denied" in str(error)


# --- OpenExecution.stop
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(asking, name="ask-3")
    done = execution.stop("the customer left")
    assert (done.header.status, done.stopped) == (ExecutionStatus.STOPPED, True)


# --- OpenEngine.release_all, OpenExecution.release
with holdfast.open(store, functions=[order, asking]) as engine:
    assert engine.release_all(order) == 0  # so many executions were quarantined, and run again
    execution = engine.start(order, {"id": 42}, name="order-42")
    assert execution.result() == "receipt-42"
    try:
        execution.release()
    except holdfast.HoldfastError as error:
        assert error.code == "invalid_parameter"  # it is over, so there is nothing to release


# --- OpenExecution.export, replay, Replayed
with holdfast.open(store, functions=[order, asking]) as engine:
    execution = engine.start(order, {"id": 42}, name="order-42")
    assert execution.result() == "receipt-42"
    document = execution.export()
told: Replayed = replay(document, order)
assert (told.matches, told.result) == (True, "receipt-42")


# --- OpenEngine.unsubscribe, StatusSignal
heard: Queue[str] = Queue()


def hear(signal: StatusSignal) -> None:
    heard.put(f"{signal.name} {signal.status.value}")


with holdfast.open(store, functions=[order, asking], subscribers={"billing": hear}) as engine:
    engine.start(order, {"id": 44}, name="order-44").result()
    assert [heard.get(), heard.get()] == ["order-44 RUNNING", "order-44 SUCCEEDED"]
    engine.unsubscribe("billing")


# --- OpenEngine.run
async def refused() -> None:
    async with holdfast.open(":memory:", functions=[order]) as engine:
        try:
            await engine.run("refund-worker", {"order_id": "42"})  # see "Workers"
        except holdfast.HoldfastError as error:
            assert "No workers are served here" in str(error)


asyncio.run(refused())


# --- OpenEngine.view
async def seen() -> None:
    async with holdfast.open(":memory:", workers=[counting]) as engine:
        response = await engine.run("counting", {"word": "holdfast"})
        assert response.outputs == {"letters": 8}
        view = await engine.view(response.run_id)  # None for a run of a worker
        assert view is not None
        assert [(node.node, node.state) for node in view.nodes] == [("count", "ok")]


asyncio.run(seen())


# --- OpenEngine.retry, OpenEngine.restart, OpenEngine.plan_restart, OpenEngine.compare
async def restarted() -> None:
    async with holdfast.open(":memory:", workers=[counting]) as engine:
        failed = await engine.run("counting", {"word": 8})  # a number has no length
        plan = await engine.plan_restart(failed.run_id, inputs={"word": "rope"})
        assert [(node.node, node.what) for node in plan.nodes] == [("count", "again")]
        assert plan.may_cost_usd == 0  # a step asks no model
        second = await engine.restart(failed.run_id, inputs={"word": "rope"})
        assert second.outputs == {"letters": 4}
        third = await engine.restart(second.run_id, nodes="count")  # `count`, and everything below it
        told = await engine.compare(second.run_id, third.run_id)
        assert told.is_same
        try:
            await engine.retry(third.run_id)  # runs only what failed
        except holdfast.HoldfastError as error:
            assert "there is nothing to retry" in str(error)


asyncio.run(restarted())


# --- OpenEngine.cost, OpenEngine.estimate, OpenEngine.estimate_rest
async def priced() -> None:
    async with holdfast.open(":memory:", workers=[counting]) as engine:
        before = await engine.estimate("counting", {"word": "holdfast"})
        assert before.most.cost_usd == 0  # a step asks no model
        response = await engine.run("counting", {"word": "holdfast"})
        spent = await engine.cost(run=response.run_id, by="node,model")  # or since="30d", by="tenant"
        assert (spent.total.calls, spent.lines) == (0, ())
        rest = await engine.estimate_rest(response.run_id)  # None for a run of a worker
        assert rest is not None
        assert rest.nodes == ()  # nothing is left to do


asyncio.run(priced())


# --- OpenEngine.follow
async def followed() -> None:
    async with holdfast.open(":memory:", workers=[counting]) as engine:
        run = await engine.run("counting", {"word": "holdfast"}, wait=0)  # does not wait for the run
        async for event in engine.follow(run.run_id):
            if event.event in ("progress", "tokens"):
                print(event.data)  # live: these come while the worker works
            if event.event == "done":
                assert event.data["outputs"] == {"letters": 8}


asyncio.run(followed())


# --- OpenEngine.close
async def closed_by_hand() -> None:
    async with holdfast.open(":memory:", functions=[order]) as engine:
        await (await engine.start(order, {"id": 1})).result()
        # `async with` calls `engine.close()` at its end; what is under way goes on with the next engine on this store


asyncio.run(closed_by_hand())


# --- Settings, Clock
clock: Clock = VirtualClock()
settings = Settings(threads=4, clock=clock)  # a clock that goes on by itself: no wait takes time


@durable_execution
def patient(event: Any, context: DurableContext) -> str:
    context.wait(Duration.from_days(365))
    return "a year later"


with holdfast.open(":memory:", functions=[patient], settings=settings) as engine:
    assert engine.start(patient).result() == "a year later"


# --- AesGcm, PayloadCodec
codec: PayloadCodec = AesGcm({"2026": bytes(32)}, current="2026")  # 32 secret bytes, by an id that is no secret
with holdfast.open(":memory:", functions=[order], codec=codec) as engine:
    assert engine.start(order, {"id": 1}).result() == "receipt-1"
