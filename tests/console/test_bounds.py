"""What strangers choose has a bound: the depth and the number of operations, payloads of any kind, streams, jobs, tries to log in."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from holdfast.console.bulk_jobs import MOST_AT_ONCE, BulkJobs
from holdfast.console.pages import queue_tables
from holdfast.console.pages import queues as queues_page
from holdfast.console.sources import approvals as approvals_source
from holdfast.console.sources import run as run_source
from holdfast.console.sources import runs as runs_source
from holdfast.console.sources.approvals import ApprovalsSource
from holdfast.console.sources.bulk import BulkRun, BulkSource, Verb
from holdfast.console.sources.gate_verdicts import few_enough
from holdfast.console.sources.timeline_tree import TimelineFilter, TimelineTree
from holdfast.console.sources.viewer import Viewer
from holdfast.console.ticks import Ticks, _Stream
from holdfast.model.audit import Actor, NoteFilter
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.model.operations import SubType
from holdfast.model.verbs import Start
from holdfast.service.client import Client
from holdfast.store.seam import Snapshot, Store
from holdfast.workers.approvals import approval_id
from holdfast.workers.run_lookup import Caller
from tests.console.histories import History
from tests.console.scene import Scene, client_of
from tests.console.test_tables import enqueue
from tests.surface.auth_server import BASE, bearer, token


@pytest.mark.alone
def test_a_row_below_forty_thousand_maps_is_found_as_quickly_as_another(scene: Scene) -> None:
    history, parent = History("deep", scene.clock.now() - 1_000_000), None
    for number in range(40_000):
        parent = history.context("n", SubType.MAP if number % 2 else SubType.MAP_ITERATION, parent)
    tree = TimelineTree(history.header, history._operations, {}, scene.clock.now(), msgspec.UNSET, whole=False)  # type: ignore[arg-type]
    began = time.process_time()
    row, choice = tree.shown_at(len(tree.entries) - 1, TimelineFilter())
    assert (row, len(choice.toggled)) == (39_999, 39_999)
    assert time.process_time() - began < 1.0, "each row above was compared with a copy of all that were opened"


@pytest.mark.parametrize(
    "payload",
    [
        '{"a": 1e9999999999999999999}',
        '{"a": 1e400}',
        '{"a": 1.' + "1" * 5_000 + "}",
        '{"a": ' + "9" * 5_000 + "}",
        "[" * 50_000 + "]" * 50_000,
        '"\\ud800"',
        '{"\\ud800": ["\\udfff"]}',
    ],
    ids=lambda text: text[:16],
)
async def test_a_payload_that_python_cannot_hold_breaks_no_page(scene: Scene, payload: str) -> None:
    now = scene.clock.now()
    header = new_execution(id_at(now), "odd", "order", "1", payload=payload, now=now, terms=Terms())
    scene.store.commit([Start(header, payload)], now)
    Client(scene.store, scene.where, clock=scene.clock, ids=id_at).stop(header.id)
    steps = History("steps", now)
    steps.step("odd", result=payload)
    other = steps.kept(scene.store)
    async with scene.browser() as browser:
        for run in (header, other):
            for part in ("", "?tab=data", "?tab=events", "/timeline", "/restart", "/test", "/test/file", "/export"):
                answer = await browser.client.get(f"/console/runs/{run.id}{part}")
                assert answer.status_code in (200, 422), (part, answer.status_code)
        for operation in (await browser.get(f"runs/{other.id}/timeline")).json()["rows"]:
            await browser.get(f"runs/{other.id}?op={operation['i']}")
            await browser.get(f"runs/{other.id}/op/{operation['i']}/raw")
        await browser.get(f"compare?left={header.id}&right={other.id}")
        await browser.post(f"runs/{header.id}/restart/plan", input=payload, expect=200)


async def test_a_list_looks_through_a_bounded_number_of_operations(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_source, "MOST_LOOKED", 25)
    for number in range(5):
        suspended(scene, f"run-{number}", 10)
    looked: list[str] = []
    outline = type(scene.store).outline

    def counted(store: Any, one: str, newer_than: int = 0) -> Any:
        looked.append(one)
        return outline(store, one, newer_than)

    monkeypatch.setattr(type(scene.store), "outline", counted)
    async with scene.browser() as browser:
        page = await browser.text("runs/-/rows")
    assert page.count("run-") == 5
    assert len(looked) == 2


def suspended(scene: Scene, name: str, operations: int) -> Execution:
    """An execution that waits, with so many operations."""
    history = History(name, scene.clock.now())
    for _ in range(operations):
        history.step("s")
    number = len(history._events)
    header = msgspec.structs.replace(
        history.header,
        status=ExecutionStatus.RUNNING,
        state=State.SUSPENDED,
        events=number,
        sequence=number,
        revision=number,
        operations=operations,
    )
    assert scene.store.adopt(Snapshot(header, tuple(history._operations), tuple(history._events)))
    return header


def test_the_verdicts_of_gates_are_read_from_few_operations_in_all(scene: Scene) -> None:
    header = scene.start("flow")
    many = [msgspec.structs.replace(header, operations=4_000)] * 200
    long = [msgspec.structs.replace(header, operations=10, stored=10 * 1024 * 1024)] * 200
    giants = [msgspec.structs.replace(header, operations=40_000)] * 200
    assert [len(few_enough(runs)) for runs in (many, long, giants)] == [5, 3, 0]


async def test_a_run_that_is_too_large_for_one_answer_is_not_written_into_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_source, "_MOST_EXPORTED", 0)
    run = suspended(scene, "large", 1)
    async with scene.browser() as browser:
        assert f"holdfast executions export {run.id}" in await browser.text(f"runs/{run.id}/export", expect=422)


async def test_a_number_of_many_digits_confirms_nothing(scene: Scene) -> None:
    scene.start("order")
    async with scene.browser("operator") as browser:
        for count in ("9" * 5_000, "９", "-1", "1e3"):
            await browser.post("runs/-/bulk", q="", verb="stop", reason="x", confirm=count, count=count, expect=422)


def test_the_jobs_of_one_tenant_keep_no_other_tenant_out(scene: Scene) -> None:
    class Slow(BulkSource):
        def __init__(self, tenant: str | None) -> None:
            self._of = tenant

        @property
        def tenant(self) -> str | None:
            return self._of

        def act(self, verb: Verb, item: BulkRun, reason: str) -> None: ...

        def note(self, verb: Verb, on: str, outcome: str) -> None: ...

    items = [msgspec.UNSET] * 100
    jobs = BulkJobs(scene.clock, id_at, pace=60.0)
    try:
        for _ in range(MOST_AT_ONCE):
            jobs.start(Slow("acme"), Verb.STOP, items, question="", reason="x")  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter):
            jobs.start(Slow("acme"), Verb.STOP, items, question="", reason="x")  # type: ignore[arg-type]
        jobs.start(Slow("rival"), Verb.STOP, items, question="", reason="x")  # type: ignore[arg-type]
        jobs.start(Slow(None), Verb.STOP, items, question="", reason="x")  # type: ignore[arg-type]
    finally:
        jobs.close()


def made_ticks(monkeypatch: pytest.MonkeyPatch) -> list[Ticks]:
    """The ticks of the consoles that are opened after this call."""
    made: list[Ticks] = []
    begin = Ticks.__init__

    def kept(ticks: Ticks, store: Store) -> None:
        made.append(ticks)
        begin(ticks, store)

    monkeypatch.setattr(Ticks, "__init__", kept)
    return made


async def test_the_open_pages_of_one_credential_keep_no_other_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_ticks(monkeypatch)
    mine, other = (token(scene.store, "viewer", now=scene.clock.now()) for _ in range(2))
    async with scene.app() as app, client_of(app) as client:
        (ticks,) = made
        for _ in range(100):
            ticks._streams[_Stream("", mine.credential.id)] = None
        refused = await client.get("/console/ticks", headers=bearer(mine))
        assert refused.status_code == 429
        found = await client.get("/console/ticks?run=none", headers=bearer(other))
        assert found.status_code == 204
        ticks._streams.clear()


async def test_an_action_on_this_console_refreshes_the_open_pages_of_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_ticks(monkeypatch)
    monkeypatch.setattr(scene.store, "changed", lambda: False)  # no other process writes
    run, other = scene.start("order", 1), scene.start("order", 2)
    async with scene.browser("operator") as browser:
        (ticks,) = made
        streams = list_of, of_run, of_other = _Stream(""), _Stream(run.id), _Stream(other.id)
        ticks._streams.update(dict.fromkeys(streams))
        looking = asyncio.create_task(ticks._look())
        await browser.post(f"runs/{run.id}/stop", reason="a bad deploy")
        ended = scene.store.find(run.id)
        assert ended is not None
        assert [await one.next(30) for one in (list_of, of_run, of_other)] == [1, ended.revision, 1]
        ticks._streams.clear()
        await looking


async def test_a_wrong_token_at_the_login_is_in_the_audit_log_once_a_minute(scene: Scene) -> None:
    token(scene.store, "viewer", now=scene.clock.now())
    async with scene.app() as app, client_of(app) as client:
        for _ in range(5):
            await client.post("/console/login", data={"token": "hf_wrong"}, headers={"Origin": BASE})
    notes = [one.note for one in scene.store.audit(NoteFilter(limit=100)) if one.note.what == "LogIn"]
    assert 1 <= len(notes) <= 2
    assert all("hf_wrong" not in repr(note) for note in notes)


async def test_of_very_many_queues_only_those_that_are_shown_are_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues_page, "MOST_ROWS", 3)
    monkeypatch.setattr(queue_tables, "MOST_ROWS", 3)
    for number in range(10):
        enqueue(scene, 1, queue=f"q{number}", name=f"run-{number}")
    read: list[str] = []
    queue_state = type(scene.store).queue_state

    def counted(store: Any, queue: str, now: int, tenant: str | None) -> Any:
        read.append(queue)
        return queue_state(store, queue, now, tenant)

    monkeypatch.setattr(type(scene.store), "queue_state", counted)
    async with scene.browser() as browser:
        page = await browser.text("queues")
    assert "there are more" in page
    assert read == ["q0", "q1", "q2", "q3"]


def test_decided_approvals_are_read_from_a_bounded_number_of_operations(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals_source, "MOST_OPERATIONS", 25)
    runs = [suspended(scene, f"run-{number}", 10) for number in range(5)]
    notes = [Actor(who="x", origin="here").did("approve", approval_id(run.id, "a" * 64), "approved", scene.clock.now()) for run in runs]
    scene.store.note([note for some in notes for note in some])
    read: list[str] = []
    viewer = Viewer(scene.store, scene.where, clock=scene.clock, ids=id_at, caller=Caller(principal="x"), actor=None, tenant=None)
    source = ApprovalsSource(viewer)
    monkeypatch.setattr(source, "_of_run", lambda run: read.append(run) or ())  # type: ignore[func-returns-value, redundant-expr]
    decided = source.decided()
    assert decided.bounded
    assert len(read) == 2
