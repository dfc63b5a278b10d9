"""Verbs of an operator.

A `Client` has four objects with the verbs of an operator: `client.queues`, `client.schedules`, `client.approvals` and `client.restarts`.
They need only the store, and run nothing: a runner that has the store open does what they ask. The decisions are in the audit log, if the
client was opened with an `Actor`.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast import Actor, Client, DurableContext, NoteFilter, NoteKind, Only, Schedule, Settings, durable_execution

folder = tempfile.TemporaryDirectory()
store = str(Path(folder.name) / "orders.db")
is_bank_open = False


@durable_execution
def charge(event: Any, context: DurableContext) -> str:
    reserved = context.step(lambda step: f"reserved {event['id']}", name="reserve")
    if not is_bank_open:
        raise ConnectionError("the bank is closed")
    return context.step(lambda step: f"{reserved}, charged", name="charge")


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


def runner(**settings: Any) -> Any:
    """Another process, in a real program."""
    return holdfast.open(store, functions=[charge], workers=[letter], settings=Settings(**settings))


client = Client.open(store, create=True)

# --- Actor, NoteKind
with Client.open(store, actor=Actor(who="ann", origin="operator_verbs.py")) as ann:
    ann.queues.set("charges", {"at_once": 2})
    (noted,) = ann.audit(NoteFilter(kind=NoteKind.DECISION))
    note = noted.note
    assert (note.who, note.what, note.on) == ("ann", "queue_set", "charges")

# --- Only
with runner(only=Only(queues=frozenset({"charges"}))) as engine:  # this process runs only executions of this queue
    waiting = engine.enqueue(charge, {"id": 2}, queue="others")
    assert waiting.status() == "RUNNING"  # another runner will run it

# --- StoreQueues.list, StoreQueues.get, StoreQueues.set
client.queues.set("charges", {"at_once": 1, "most_waiting": 100})  # wins over what the code declares
assert [queue.row.name for queue in client.queues.list()] == ["charges"]
assert client.queues.get("charges").settings.limits.at_once == 1
client.queues.set("charges", {}, reset=["at_once"])
assert client.queues.get("charges", lanes=0).settings.limits.at_once is None

# --- StoreQueues.declare
(declared,) = client.queues.declare([holdfast.Queue("emails", at_once=20)])
assert declared.settings.limits.at_once == 20

# --- StoreQueues.pause, StoreQueues.resume, StoreQueues.drain
client.queues.declare([holdfast.Queue("emails", at_once=20)])
assert client.queues.pause("emails").row.mode == "paused"  # it accepts executions, and admits none
client.queues.drain("emails")  # it admits the executions that wait, and accepts no new ones
client.queues.resume("emails")

# --- StoreQueues.push
lines = [(1, b'{"id": 3}'), (2, b'{"id": 4}'), (3, b"no JSON")]
(batch,) = client.queues.push(charge, lines, queue="charges", key_field="id", ttl=3600)
assert [(one.line, one.created, one.error is not None) for one in batch] == [(1, True, False), (2, True, False), (3, False, True)]

# --- StoreQueues.parked, StoreQueues.redrive
with runner() as engine:
    engine.enqueue(charge, {"id": 5}, queue="charges", idempotency_key="charge-5")
    while not (parked := list(client.queues.parked("charges", error="ConnectionError"))):
        time.sleep(0.01)  # until it has failed
    is_bank_open = True
    assert [one.header.name for one in parked] == ["charge-5"]
    again = client.queues.redrive([one.header for one in parked])
    assert [one.error for one in again] == [None]  # it runs again, under the same name

# --- Schedules.add, Schedules.list, Schedules.get, Schedules.declare
client.schedules.add(Schedule("nightly", charge, cron="0 2 * * *", input={"id": 5}))
client.schedules.add(Schedule("nightly", charge, cron="0 3 * * *", input={"id": 5}), replace=True)
client.schedules.declare(Schedule("weekly", charge, cron="0 6 * * MON", input={"id": 6}))  # as code does: an operator's change wins
assert [state.name for state in client.schedules.list(limit=10)] == ["nightly", "weekly"]
assert client.schedules.get("nightly").definition.timing.cron == "0 3 * * *"

# --- Schedules.pause, Schedules.resume, Schedules.run_now, Schedules.backfill, Schedules.remove
client.schedules.add(Schedule("nightly", charge, cron="0 2 * * *", input={"id": 5}))
assert client.schedules.pause("nightly").paused
assert not client.schedules.resume("nightly", catch_up=False).paused
client.schedules.run_now("nightly")  # one occurrence now, beside the timetable
filled = client.schedules.backfill("nightly", 0, 86_400_000)  # what was due in a time, in milliseconds since 1970
assert filled.due == 1  # a runner will start it
client.schedules.remove("nightly")

# --- StoreApprovals.list, StoreApprovals.get, StoreApprovals.decide
with runner() as engine:
    waits = engine.run("letter", {"name": "Ann"})
    assert waits.status == "needs_human"
    (approval,) = client.approvals.list(waits.run_id)
    assert client.approvals.get(approval.approval_id).question == "Send it?"
    client.approvals.decide(approval.approval_id, "approve", comment="it is polite")
    assert [event.event for event in client.follow(waits.run_id)][-1] == "done"

# --- StoreApprovals.link
with runner() as engine:
    waits = engine.run("letter", {"name": "Bob"})
    (approval,) = client.approvals.list(waits.run_id)
    link = client.approvals.link(approval.approval_id, "ann", seconds=3600)  # ann may decide once, without an account
    assert link.path

# --- StoreApprovals.decide_many
with runner() as engine:
    waits = engine.run("letter", {"name": "Bob"})
    (decided,) = client.approvals.decide_many("reject", run=waits.run_id, comment="not this week")
    assert decided.error_code is None
    assert [event.event for event in client.follow(waits.run_id)][-1] == "done"

# --- StoreRestarts.prepare, StoreRestarts.restart, StoreRestarts.compare
with runner() as engine:
    waits = engine.run("letter", {"name": "Bob"})
    client.runs.cancel(waits.run_id)
    assert [event.event for event in client.follow(waits.run_id)][-1] == "done"
    prepared = client.restarts.prepare(waits.run_id, inputs={"name": "Bob and Eve"})  # nothing is written yet
    assert [(node.node, node.what) for node in prepared.plan.nodes] == [("write", "again"), ("sign", "again")]
    header = client.restarts.restart(prepared)
    while not (asked := list(client.approvals.list(header.id))):
        time.sleep(0.01)  # until the new run asks
    client.approvals.decide(asked[0].approval_id, "approve")
    assert [event.event for event in client.follow(header.id)][-1] == "done"
told = client.restarts.compare(waits.run_id, header.id)
assert not told.is_same

# --- StoreRestarts.prepare_execution, StoreRestarts.restart_execution
is_bank_open = True
with runner() as engine:
    first = engine.start(charge, {"id": 1}, name="charge-1")
    assert first.result() == "reserved 1, charged"
    ready = client.restarts.prepare_execution(first.id, charge, "charge")  # replays the code up to this operation
    second = client.restarts.restart_execution(ready)  # it does not run `reserve` again
    assert engine.get(second.id).result() == "reserved 1, charged"
