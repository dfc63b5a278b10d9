"""Queues in one file: which index answers each question of admission, what damage does to a lane, and copies of what waits."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.exports.exporting import exported
from holdfast.exports.importing import copied, read
from holdfast.model.execution import ExecutionStatus, State
from holdfast.store.backends import open_maintenance
from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.queue_writes import MAIL, admitted_names, check_counts, enqueued, queued, running, several
from holdfast.testing.stores.writes import LEASE, ORDER, T0, at
from tests.store.files import quick_store

INDEXES: dict[str, tuple[Any, set[str]]] = {
    "has_open_lane": ({"targets": "[]", "now": 1}, {"lanes_open", "lanes_of_function", "lanes_closed"}),
    "reopen_lanes": ((1,), {"lanes_closed"}),
    "open_lanes": (("", 0, "", 1), {"lanes_open"}),
    "heads": (("x", 1, 0), {"executions_in_lane"}),
    "next_of_key": ({"key": "k"}, {"PRIMARY", "executions_in_lane"}),
    "oldest": (("x",), {"executions_waiting"}),
    "queue_state": ({"queue": "q"}, {"executions_delayed", "executions_waiting", "executions_parked", "PRIMARY"}),
    "ahead": ({"lane": "x", "order_at": 1, "id": "x", "most": 1}, {"executions_in_lane"}),
    "queue_state_of": ({"queue": "q", "lane": "q/tenant=t", "tenant": "t"}, {"executions_delayed", "executions_parked", "PRIMARY"}),
    "parked": ({"beyond": "", "limit": 1, "tenant": None}, {"executions_parked"}),
    "parked_in": ({"queue": "q", "beyond": "", "limit": 1, "tenant": "t"}, {"executions_parked"}),
    "lanes": (("q", "", 1), {"lanes_of_queue"}),
    "waiting_in": (("[]",), {"PRIMARY"}),
    "idle_lanes": ((1, 1), {"lanes_idle"}),
    "due": ((1, 1), {"executions_due"}),
    "next_due": ((), {"executions_due", "lanes_closed"}),
    "ready": ({"function": "f", "version": "1", "now": 1, "limit": 1}, {"executions_ready_of"}),
    "next_ready": ({"function": "f", "version": "1"}, {"executions_ready_of"}),
}
"""Each question, and the indexes that answer it: none of them holds what waits behind a paused queue, but for the heads of lanes."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(quick_store(tmp_path / "s.db", "here")) as store:
        store.join("here", LEASE)
        yield store


@pytest.mark.parametrize("question", INDEXES)
def test_every_question_of_admission_is_answered_by_its_own_index(store: SqliteStore, question: str) -> None:
    parameters, wanted = INDEXES[question]
    plan = [row[3] for row in store._writer.execute(f"EXPLAIN QUERY PLAN {store._sql[question]}", parameters)]
    tables = [line for line in plan if " executions" in line or " lanes" in line or line.startswith("SEARCH l ")]
    assert {word for line in tables for word in line.split() if word in wanted} == wanted
    assert [line for line in tables if not any(name in line for name in wanted)] == []
    assert [line for line in tables if line.startswith("SCAN") and "executions_parked" not in line] == []


def test_damaged_heads_keep_nothing_behind_them_waiting(store: SqliteStore) -> None:
    made = several(store, *(f"bad{n}" for n in range(20)), "good")
    store._writer.executemany("UPDATE executions SET status = 'nonsense' WHERE id = ?", [(header.id,) for header in made[:20]])
    assert admitted_names(store, 1) == ["good"]
    assert admitted_names(store, 1) == []


def test_a_copy_of_what_waits_is_imported_and_never_admitted(store: SqliteStore) -> None:
    delayed, waiting = enqueued(store, queued("later", delay_ms=1000), queued("now"))
    taken = running(store, "taken", queue="beside")
    with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
        for header in (delayed, waiting, taken):
            snapshot = store.snapshot(header.id)
            assert snapshot is not None
            document = exported(snapshot, T0, include_data=True)
            assert "place" not in document["execution"]
            assert elsewhere.adopt(copied(read(document).snapshot, at(1)))
        found = elsewhere.list(Filter())
        assert {(header.state, header.status, header.place) for header in found} == {(State.IMPORTED, ExecutionStatus.RUNNING, None)}
        assert (list(elsewhere.due(at(9999), 9)), list(elsewhere.queues()), elsewhere.admit(ORDER, [], at(9)).answers) == ([], [], ())


def test_a_store_with_queues_is_sound_and_so_is_its_copy(store: SqliteStore, tmp_path: Path) -> None:
    several(store, "a", "b", tenant="x", key="k")
    running(store, "c", queue="beside")
    several(store, "d", delay_ms=1000)
    keeping = open_maintenance(str(tmp_path / "s.db"), "operator")
    assert keeping.check(quick=False).findings == []
    keeping.backup(tmp_path / "copy.db", replace=False)
    with contextlib.closing(SqliteStore(str(tmp_path / "copy.db"), "again")) as copy:
        copy.join("again", LEASE)
        assert copy.queue_state(MAIL, T0).waiting == 2
        assert admitted_names(copy, 9) == ["a", "b"]
        check_counts(copy)
    store._writer.execute("UPDATE lanes SET held = 7 WHERE key = 'mail'")
    store._writer.execute("DELETE FROM lanes WHERE key = 'beside'")
    assert {finding.name for finding in keeping.check(quick=False).findings} == {"lanes_miscounted", "lanes_lost"}
