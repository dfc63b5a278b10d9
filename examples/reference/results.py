"""What verbs return.

The types of the objects that public verbs return, with their members. These members are public. The modules that define the types are not:
get the objects from the verbs, and do not import the types. Types that belong together share an example. A table at the end of the page
has the types of their members.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast import Actor, Client, DurableContext, Pipeline, Schedule, ToolCall, durable_execution, read_operator
from holdfast.durable import InvocationError
from holdfast.testing import Runner, worker_kit

folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "orders.db")
OBJECT = {"type": "object"}


def kind(value: object) -> str:
    """The name of the type of an object."""
    return type(value).__name__


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: f"receipt-{event['id']}", name="charge")


@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    return context.create_callback(name="approval").result()


letter = Path(folder.name, "letter.py")
letter.write_text("""
from holdfast import Pipeline

p = Pipeline("letter", "1.0", inputs={"type": "object"}, outputs={"type": "object"})


def greeting(inputs):
    return {"text": "Dear " + inputs["name"]}


written = p.step("write", greeting, {"name": p.inputs.name})
signed = p.human("sign", show=written.outputs, question="Send it?")
p.gives({"text": written.outputs.text, "signed_by": signed.decided_by})
""")
client = Client.open(store, create=True)

# --- Started, Execution, Description, Operation
with holdfast.open(store, functions=[order]) as engine:
    engine.start(order, {"id": 42}, name="order-42").result()
started, found, told = client.start(order, {"id": 43}), client.get("order-42"), client.describe("order-42")
(charge,) = [operation for operation in client.operations("order-42") if operation.name]
assert [kind(started), kind(found), kind(told), kind(charge)] == ["Started", "Execution", "Description", "Operation"]
assert (started.created, found.name, told.result, charge.name) == (True, "order-42", "receipt-42", "charge")


# --- ExecutionContext
@durable_execution
def who_am_i(event: Any, context: DurableContext) -> list[str]:
    return [kind(context.execution_context), context.execution_context.durable_execution_arn]


with Runner(who_am_i) as runner:
    ran = runner.run()
    assert ran.result == ["ExecutionContext", ran.arn]

# --- OpenCallback, WaitingCallback
with holdfast.open(store, functions=[asking]) as engine:
    engine.start(asking, name="ask-1")
    while not (waiting := list(client.callbacks("asking"))):
        time.sleep(0.01)  # until the function asks
    assert (kind(waiting[0]), waiting[0].name) == ("OpenCallback", "approval")
with Runner(asking) as runner:
    callback = runner.wait_for_callback_or_end(runner.run_async(), among={"approval"})
    assert callback is not None
    assert (kind(callback), callback.name) == ("WaitingCallback", "approval")


# --- Trouble
@durable_execution
def cut_off(event: Any, context: DurableContext) -> None:
    raise InvocationError("the network is down: invoke me again")


with holdfast.open(store, functions=[cut_off]) as engine:
    execution = engine.start(cut_off, name="cut-off")
    while (trouble := client.trouble(client.get(execution.id))) is None:
        time.sleep(0.01)  # until the first invocation has failed
assert kind(trouble) == "Trouble"
assert "the network is down" in trouble.error

# --- Stopped, ImportedExecution
client.start(order, {"id": 45}, name="order-45")
stopped = client.stop("order-45", "the customer left")
imported = client.import_execution(client.export("order-45"))
assert [kind(stopped), kind(imported)] == ["Stopped", "ImportedExecution"]
assert (stopped.header.status, stopped.stopped, imported.created) == ("STOPPED", True, False)  # the store has it

# --- StoreRuns, StoreQueues, Schedules, StoreApprovals, StoreRestarts
holders = [client.runs, client.queues, client.schedules, client.approvals, client.restarts]
assert [kind(each) for each in holders] == ["StoreRuns", "StoreQueues", "Schedules", "StoreApprovals", "StoreRestarts"]

# --- QueueView, PushedLine, QueuePlace
client.queues.set("orders", {"at_once": 2})
((line,),) = client.queues.push(order, [(1, b'{"id": 44}')], queue="orders", key_field="id")
view, place = client.queues.get("orders"), client.place("44")
assert place is not None
assert [kind(view), kind(line), kind(place)] == ["QueueView", "PushedLine", "QueuePlace"]
assert (view.row.name, view.state.waiting, line.created, place.queue) == ("orders", 1, True, "orders")


# --- ParkedRun, Redriven
@durable_execution
def refused(event: Any, context: DurableContext) -> None:
    raise ValueError("there is no such card")


with holdfast.open(store, functions=[refused]) as engine:
    engine.enqueue(refused, queue="cards", idempotency_key="card-1")
    while not (parked := list(client.queues.parked("cards"))):
        time.sleep(0.01)  # until it has failed
    (redriven,) = client.queues.redrive([parked[0].header])
assert (kind(parked[0]), parked[0].error_code) == ("ParkedRun", "ValueError")
assert (kind(redriven), redriven.error) == ("Redriven", None)

# --- ScheduleState, Backfilled
state = client.schedules.add(Schedule("nightly", order, cron="0 2 * * *", input={"id": 46}))
assert (kind(state), state.name, state.paused) == ("ScheduleState", "nightly", False)
filled = client.schedules.backfill("nightly", 0, 86_400_000)  # a day, in milliseconds since 1970
assert (kind(filled), filled.due) == ("Backfilled", 1)

# --- Noted
with Client.open(store, actor=Actor(who="ann", origin="results.py")) as ann:
    ann.queues.set("orders", {"at_once": 3})
    (noted,) = ann.audit()
    assert (kind(noted), noted.note.who, noted.note.what) == ("Noted", "ann", "queue_set")

# --- Response, RunView, PipelineView, RunEvent, Finished
with holdfast.open(store, workers=[letter]) as engine:
    response = engine.run("letter", {"name": "Ada"})
    client.approvals.decide_many("approve", run=response.run_id)
    event = list(client.follow(response.run_id))[-1]
run, nodes, finished = client.runs.get(response.run_id), client.view(response.run_id), client.runs.finished(response.run_id)
assert nodes is not None
assert [kind(each) for each in (response, run, nodes, event, finished)] == ["Response", "RunView", "PipelineView", "RunEvent", "Finished"]
assert (response.status, run.state, event.event) == ("needs_human", "done", "done")
assert [node.state for node in nodes.nodes] == ["ok", "ok"]

# --- Approval, MadeLink, DecisionResult
with holdfast.open(store, workers=[letter]) as engine:
    asked = engine.run("letter", {"name": "Ada"})
    (approval,) = client.approvals.list(asked.run_id)
    link = client.approvals.link(approval.approval_id, "ann")
    (decided,) = client.approvals.decide_many("reject", run=asked.run_id)
assert [kind(approval), kind(link), kind(decided)] == ["Approval", "MadeLink", "DecisionResult"]
assert (approval.question, decided.state) == ("Send it?", "reject")


# --- Estimate, CostReport, DayCapUsage
async def prices() -> None:
    async with holdfast.open(store, workers=[letter]) as engine:
        estimate = await engine.estimate("letter", {"name": "Ada"})
        report = await engine.cost(by="model")
    assert [kind(estimate), kind(report)] == ["Estimate", "CostReport"]
    assert estimate.most.cost_usd == report.total.calls == 0  # a step and a person ask no model


asyncio.run(prices())
Path(folder.name, "holdfast.toml").write_text("[policy.caps]\nruns = 1000\n")
(usage,) = client.spent_today(read_operator(file=Path(folder.name, "holdfast.toml")))
assert (kind(usage), usage.what, int(usage.left)) == ("DayCapUsage", "runs", 1000)

# --- CancelledRun, PreparedRestart, RestartPlan, Comparison
with holdfast.open(store, workers=[letter]) as engine:
    older = engine.run("letter", {"name": "Ada"})
    cancelled = client.runs.cancel(older.run_id)
    list(client.follow(older.run_id))  # until its end
    ready = client.restarts.prepare(older.run_id, inputs={"name": "Eve"})
    newer = client.restarts.restart(ready)
    compared = client.restarts.compare(older.run_id, newer.id)
assert (kind(cancelled), cancelled.cancelled) == ("CancelledRun", True)
assert [kind(ready), kind(ready.plan), kind(compared)] == ["PreparedRestart", "RestartPlan", "Comparison"]
assert [difference.path for difference in compared.inputs] == ["name"]

# --- PreparedExecution
with holdfast.open(store, functions=[order]) as engine:
    ended = engine.start(order, {"id": 42}, name="order-42")
    ended.result()
    prepared = client.restarts.prepare_execution(ended.id, order, "charge")
assert (kind(prepared), prepared.again) == ("PreparedExecution", ("charge",))

# --- WorkerHandle, MapHandle, MergeHandle, GateHandle, HumanHandle, RouteHandle
p = Pipeline("handles", "1.0", inputs=OBJECT, outputs=OBJECT)
handles = [
    web := p.worker("web", "fact-worker", {"vendor": p.inputs.vendor}),
    p.map("pages", "page-worker", p.inputs.urls, {"url": p.item}, at_most=10),
    p.merge("report", [web], policy="union", conflicts="report"),
    p.gate("check", candidate=web.outputs, rules=[{"path": ".price", "op": "at_most", "value": 100}]),
    p.human("sign-off", show=web.outputs),
    p.route("size", rules={"small": p.inputs.pages.at_most(10)}, otherwise="large"),
]
assert [kind(each) for each in handles] == ["WorkerHandle", "MapHandle", "MergeHandle", "GateHandle", "HumanHandle", "RouteHandle"]


# --- Handle, StepHandle, UntilHandle, SuperviseHandle, Ref, Expression
def cheapest(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"price": min(inputs["prices"])}


p = Pipeline("more-handles", "1.0", inputs=OBJECT, outputs=OBJECT)
more = [
    p.wait("pause", "10m"),
    p.step("least", cheapest, {"prices": p.inputs.prices}),
    p.until("poll", "status-worker", {}, rules=[{"path": ".state", "op": "equals", "value": "ready"}], at_most=3, every="30s"),
    p.supervise("plan", "supervisor-worker", {}, choices={"search": "search-worker"}, turns=6),
    p.inputs.vendor,
    p.text("Offers of {}", p.inputs.vendor),
]
assert [kind(each) for each in more] == ["Handle", "StepHandle", "UntilHandle", "SuperviseHandle", "Ref", "Expression"]

# --- Contract, Tools
PAGE = """
# Example

## Worker spec

~~~yaml
worker_id: example-worker
version: 1.0
purpose: Be an example.
inputs:
  - to: string
outputs:
  - said: string
constraints:
  tools_allowed: [price]
~~~
"""
Path(folder.name, "example-worker.md").write_text(PAGE)
Path(folder.name, "example.py").write_text("""
from holdfast import tool, worker

@tool(effect="read")
def price(call, sku: str) -> dict:
    return {"cents": 500}

@worker("example-worker.md")
def example(inputs, ctx):
    contract, tools = ctx.contract, ctx.tools  # a Contract, and the Tools that it allows
    return {"said": f"{contract.worker_id}: {tools.price(sku='tea')['cents']} cents"}
""")
assert worker_kit.run(Path(folder.name, "example.py"), {"to": "Ada"}).outputs == {"said": "example-worker: 500 cents"}

# --- Verdict, ToolRefused
call = ToolCall(run_id="run-1", tool="refund", idempotency_key="key-1")
verdicts = [call.happened({"id": "re_42"}), call.did_not_happen(), call.unknown()]
assert [kind(each) for each in verdicts] == ["Verdict", "Verdict", "Verdict"]
assert kind(call.refused("too much for one day", code="limit_reached")) == "ToolRefused"
