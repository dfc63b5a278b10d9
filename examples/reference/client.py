"""The client.

A `Client` looks at a store and changes it from a process that runs no functions, beside any number of runners. Its verbs block. They take
the arguments of the engine's verbs. `client.approvals`, `client.queues`, `client.schedules` and `client.restarts` have the verbs of an
operator, which [a page of their own](operator_verbs.md) shows. `client.runs` has the runs of workers and pipelines.
[What verbs return](results.md) has the types of what a client returns.
"""

import tempfile
from pathlib import Path
from queue import Queue
from typing import Any

import holdfast
from holdfast import Client, DurableContext, ExecutionStatus, Filter, NoteFilter, durable_execution, read_operator

folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "orders.db")
asked: Queue[str] = Queue()


@durable_execution
def order(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: f"receipt-{event['id']}", name="charge")


@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    callback = context.create_callback(name="approval")
    context.step(lambda step: asked.put(callback.callback_id), name="mail")
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


def runner() -> Any:
    """Another process, in a real program."""
    return holdfast.open(store, functions=[order, asking], queues=[holdfast.Queue("emails", at_once=20)])


with runner() as engine:
    assert engine.start(order, {"id": 42}, name="order-42").result() == "receipt-42"
    run = engine.enqueue(order, {"id": 43}, queue="emails", idempotency_key="order-43")
    assert run.result() == "receipt-43"
client = Client.open(store)

# --- Client, Client.open, Client.close
with Client.open(store) as opened:  # `with` calls `opened.close()` at its end
    assert opened.describe("order-42").result == "receipt-42"

# --- Client.list, Client.get, Client.is_hosted
ended = client.list(Filter(function="order", statuses=(ExecutionStatus.SUCCEEDED,), limit=10))
assert [execution.name for execution in ended] == ["order-43", "order-42"]
assert client.get("order/order-42").status is ExecutionStatus.SUCCEEDED  # by its ARN, id, function and name, or name
assert client.is_hosted("order")

# --- Client.describe, Client.operations, Client.history, Client.trouble
told = client.describe("order-42")
assert (told.function, told.status, told.result) == ("order", "SUCCEEDED", "receipt-42")
assert [operation.name for operation in client.operations("order-42") if operation.name] == ["charge"]
assert [event.type for event in client.history("order-42", include_data=False)][-1] == "ExecutionSucceeded"
assert client.trouble(client.get("order-42")) is None  # its last invocation did not fail

# --- Client.start, Client.stop
started = client.start(order, {"id": 44}, name="order-44")  # a runner that hosts the function will run it
assert started.created
done = client.stop("order-44", "the customer left", cascade=True)
assert (done.header.status, done.stopped) == (ExecutionStatus.STOPPED, True)

# --- Client.callbacks, Client.succeed_callback, Client.heartbeat_callback
with runner() as engine:
    waiting = engine.start(asking, name="ask-1")
    callback_id = asked.get()
    assert [callback.callback_id for callback in client.callbacks("asking")] == [callback_id]
    client.heartbeat_callback(callback_id)
    client.succeed_callback(callback_id, "yes")
    assert waiting.result() == "yes"

# --- Client.fail_callback
with runner() as engine:
    waiting = engine.start(asking, name="ask-2")
    client.fail_callback(asked.get(), "denied", "Refusal")
    try:
        waiting.result()
    except holdfast.HoldfastError as error:
        assert "denied" in str(error)

# --- Client.release, Client.release_all
assert client.release_all(order) == 0  # so many executions were quarantined, and run again
try:
    client.release("order-42")
except holdfast.HoldfastError as error:
    assert error.code == "invalid_parameter"  # it is over, so there is nothing to release

# --- Client.export, Client.import_execution
document = client.export("order-42")
with Client.open(str(Path(folder.name) / "copy.db"), create=True) as other:
    copy = other.import_execution(document)
    assert (copy.header.name, copy.created) == ("order-42", True)

# --- Client.place
place = client.place("order-43")
assert place is not None  # None for an execution that was not enqueued
assert place.queue == "emails"

# --- Client.audit, NoteFilter
assert list(client.audit(NoteFilter(what="stop", limit=20))) == []  # this client has no actor, so it writes no notes

# --- StoreRuns.list, StoreRuns.get, StoreRuns.finished, StoreRuns.cancel, Client.view, Client.follow
with holdfast.open(store, workers=[counting]) as engine:
    response = engine.run("counting", {"word": "holdfast"})
(newest,) = client.runs.list("counting", limit=1)
assert newest.response.run_id == response.run_id
assert client.runs.get(response.run_id).response.outputs == {"letters": 8}
view = client.view(response.run_id)  # None for a run of a worker
assert view is not None
assert [node.node for node in view.nodes] == ["count"]
assert [event.event for event in client.follow(response.run_id)][-1] == "done"
assert client.runs.finished(response.run_id).operations
assert not client.runs.cancel(response.run_id).cancelled  # it had ended before

# --- Client.cost, Client.spent_today
with holdfast.open(store, workers=[counting]) as engine:
    response = engine.run("counting", {"word": "holdfast"})
report = client.cost(run=response.run_id, by="node,model")
assert (report.total.calls, report.lines) == (0, ())  # a step asks no model
settings = read_operator(environment={})
assert client.spent_today(settings) == []  # the policy has no caps for a day
