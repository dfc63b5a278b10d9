"""Testing.

`Runner` runs a durable function on the real engine, with a store in memory and a clock that stands still until the test waits for
something. In pytest the fixture `durable_runner` makes runners that are closed when the test ends.
The how-to pages [of functions](../../how-to/test-durable-functions.md) and [of pipelines](../../how-to/test-pipelines.md) show how these
parts are used together.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import DurableContext, Duration, Pipeline, durable_execution
from holdfast.store.seam import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing import (
    CrashDiffers,
    ReplayDiffers,
    Result,
    Runner,
    Seen,
    VirtualClock,
    check_replays,
    crash_everywhere,
    pipeline_kit,
    worker_kit,
)
from holdfast.testing.pipeline_kit import NodeRun, PipelineRan
from holdfast.testing.stores import Opening, SharedStoreSuite, StartingSuite, StoreSuite
from holdfast.testing.worker_kit import WorkerRan


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: f"receipt-{event['id']}", name="charge")


@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    return context.create_callback(name="approval").result()


# --- Runner, Runner.run, Result, Seen
with Runner(order) as runner:
    result: Result = runner.run({"id": 42})
charge: Seen = result.get_step("charge")
assert (result.status, result.result, charge.result) == ("SUCCEEDED", "receipt-42", "receipt-42")


# --- Runner.run_async, Runner.wait_for_callback, Runner.send_callback_success, Runner.wait_for_result
with Runner(asking) as runner:
    arn = runner.run_async()
    runner.send_callback_success(runner.wait_for_callback(arn, "approval"), "yes")
    assert runner.wait_for_result(arn).result == "yes"


# --- Runner.send_callback_failure, Runner.send_callback_heartbeat
with Runner(asking) as runner:
    arn = runner.run_async()
    callback = runner.wait_for_callback(arn)
    runner.send_callback_heartbeat(callback)
    runner.send_callback_failure(callback, "denied")
    assert runner.wait_for_result(arn).status == "FAILED"


# --- Runner.wait_for_callback_or_end
with Runner(asking) as runner:
    arn = runner.run_async()
    found = runner.wait_for_callback_or_end(arn, among={"approval"})
    assert found is not None
    runner.send_callback_success(found.id)
    assert runner.wait_for_callback_or_end(arn, among={"approval"}) is None


# --- Runner.look, Runner.get_execution_history
with Runner(asking) as runner:
    arn = runner.run_async()
    runner.wait_for_callback(arn)
    assert runner.look(arn).status == "RUNNING"
    assert runner.get_execution_history(arn)[0].type == "ExecutionStarted"


# --- Runner.advance
with Runner(asking) as runner:
    began = runner.clock.now()
    runner.run_async()
    runner.advance(Duration.from_hours(1))
    assert runner.clock.now() - began == 3_600_000


# --- Runner.register_function, Runner.register_durable_function
@durable_execution
def invoking(event: Any, context: DurableContext) -> list[Any]:
    return [context.invoke("tax", {}, name="tax"), context.invoke("order", {"id": 1}, name="order")]


with Runner(invoking) as runner:
    runner.register_function("tax", lambda payload: 5)  # a stub
    runner.register_durable_function(order)  # the real one
    assert runner.run().result == [5, "receipt-1"]


# --- Runner.wait_for_approval, Runner.decide
@durable_execution
def buying(event: Any, context: DurableContext) -> Any:
    return context.run("buyer", {"item": event["item"]}).outputs


PAGE = """
# Buyer

## Worker spec

~~~yaml
worker_id: buyer
version: 1.0
purpose: Ask before it buys.
inputs:
  - item: string
outputs:
  - said: string
~~~
"""
BODY = """
from holdfast import worker

@worker("buyer.md")
async def buyer(inputs, ctx):
    return {"said": await ctx.ask("Buy it?")}
"""
with tempfile.TemporaryDirectory() as shop:
    Path(shop, "buyer.md").write_text(PAGE)
    Path(shop, "buyer.py").write_text(BODY)
    with Runner(buying, workers=[f"{shop}/buyer.py"]) as runner:
        arn = runner.run_async({"item": "tea"})
        question = runner.wait_for_approval(arn)
        runner.decide(question.approval_id, "answer", result="yes")
        assert (question.question, runner.wait_for_result(arn).result) == ("Buy it?", {"said": "yes"})


# --- Runner.close
runner = Runner(order)
assert runner.run({"id": 1}).result == "receipt-1"
runner.close()  # `with Runner(...)` does this at its end


# --- crash_everywhere, CrashDiffers
assert crash_everywhere(order, {"id": 42}) > 0  # so many crashes changed nothing
calls: list[int] = []


@durable_execution
def careless(event: Any, context: DurableContext) -> int:
    calls.append(1)  # outside of a step: it runs again at every replay
    context.step(lambda step: None, name="work")
    return len(calls)


try:
    crash_everywhere(careless, reset=calls.clear)
except CrashDiffers as error:
    assert "A crash before checkpoint 1" in str(error)


# --- check_replays, ReplayDiffers
with tempfile.TemporaryDirectory() as folder, Runner(order) as runner:
    exported = runner.engine.get(runner.run({"id": 42}).arn).export()
    Path(folder, "order-42.json").write_text(json.dumps(exported))
    assert check_replays(folder, [order]) == 1

    @durable_execution(name="order")
    def changed(event: Any, context: DurableContext) -> str:
        return context.step(lambda step: "", name="refund")

    try:
        check_replays(folder, [changed])
    except ReplayDiffers as error:
        assert "order-42.json" in str(error)


# --- run, WorkerRan, worker_kit.crash_everywhere
refund = Path(str(worker_kit.__file__)).parents[1] / "library" / "refund" / "refund.py"
inputs = {"order_id": "42", "message": "the cup is broken, I want my 19 euros back"}
tools = {"language_model": {"decision": "refund", "cents": 1900}, "refund_payment": {"id": "re_1"}}
ran: WorkerRan = worker_kit.run(refund, inputs, tools=tools, decisions={"refund_payment": "approve"})
assert (ran.status, ran.outputs) == ("ok", {"refund_id": "re_1"})
assert ran.writes == (("refund_payment", {"order_id": "42", "cents": 1900}),)
assert worker_kit.crash_everywhere(refund, inputs, tools=tools) > 0


# --- pipeline_kit.run, PipelineRan, NodeRun, pipeline_kit.crash_everywhere
p = Pipeline("letters", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
letters = p.map("letters", "writer-worker", p.inputs.names, {"name": p.item}, at_most=50)
pause = p.wait("pause", "3d", after=letters)
signed = p.human("sign-off", show={"letters": letters.ok.outputs.text}, after=pause)
sent = p.worker("send", "post-worker", {"letters": letters.ok.outputs.text}, after=signed)
p.gives({"sent": sent.outputs.count})

stubs = {
    "writer-worker": lambda inputs: {"text": f"Dear {inputs['name']}"},
    "post-worker": lambda inputs: {"count": len(inputs["letters"])},
}
names = {"names": ["Ada", "Bo"]}
finished: PipelineRan = pipeline_kit.run(p, names, workers=stubs, decisions={"sign-off": "approve"})
assert (finished.status, finished.outputs, finished.nodes["send"].state) == ("ok", {"sent": 2}, "ok")
first: NodeRun = finished.runs["letters"][0]
assert (first.worker, first.item, first.inputs, first.outputs) == ("writer-worker", 0, {"name": "Ada"}, {"text": "Dear Ada"})
assert pipeline_kit.crash_everywhere(p, names, workers=stubs, decisions={"sign-off": "reject"}) > 10


# --- VirtualClock
clock = VirtualClock(0)
with holdfast.open(":memory:", functions=[order], settings=holdfast.Settings(clock=clock)) as engine:
    assert engine.start(order, {"id": 42}).describe().started_at == 0
clock.move_to(3_600_000)
assert clock.now() == 3_600_000  # an hour later


# --- Store, SqliteStore
with contextlib.closing(SqliteStore(":memory:", "this process")) as kept:
    opened: Store = kept  # a store of your own has the methods of `Store`, too
    assert opened.find("nothing") is None


# --- StoreSuite, SharedStoreSuite
class MyStore:
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        with contextlib.ExitStack() as stores:
            yield lambda member: stores.enter_context(contextlib.closing(SqliteStore(":memory:", member)))


class TestHowExecutionsBegin(MyStore, StartingSuite):  # a new store begins with one part; the other parts are used in the same way
    pass


class TestMyStore(MyStore, StoreSuite):  # all parts; SharedStoreSuite, if several processes may open the store
    pass


assert issubclass(StoreSuite, StartingSuite)
assert issubclass(SharedStoreSuite, StoreSuite)
