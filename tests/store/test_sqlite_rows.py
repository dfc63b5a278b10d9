"""What only SQLite can get wrong: a list that reads the whole table, rows that are never removed, a transaction that takes too long."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.model.audit import NoteFilter
from holdfast.model.errors import StoreBroken
from holdfast.model.execution import ExecutionStatus
from holdfast.model.history import EventType
from holdfast.model.operations import Action
from holdfast.model.outside import Stop
from holdfast.service.client import Client
from holdfast.store import retention
from holdfast.store.rows import note_question
from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.outbox import told
from holdfast.testing.stores.retention import DAY_LATER
from holdfast.testing.stores.writes import (
    LEASE,
    T0,
    after,
    answers,
    closed,
    forgotten,
    id_at,
    live,
    started,
    step,
    story,
    suspended,
    wait,
    wanted,
    written,
)
from tests.store.children import child, heard
from tests.store.files import quick_store

X = ExecutionStatus
BY_ID = "SCAN executions USING INDEX executions_by_id"
BY_FUNCTION = "SEARCH executions USING INDEX executions_by_function (function=?)"
BY_STATUS = "SEARCH executions USING INDEX executions_by_status (status=?)"
BY_NAME = "SEARCH executions USING INDEX executions_by_name (name=?)"
FORMERLY = BY_NAME.replace("executions_by_name", "executions_superseded")
BY_PARENT = "SEARCH executions USING INDEX executions_by_parent (parent=?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = quick_store(path, "here")
    store.join("here", LEASE)
    yield store
    store.close()


def plan(store: SqliteStore, wanted: Filter) -> list[str]:
    """How SQLite answers a list; the statuses it was asked for are no table of ours."""
    question, parameters = store._lists.of(wanted)
    steps = [row[3] for row in store._reader.execute(f"EXPLAIN QUERY PLAN {question}", parameters)]
    return [step for step in steps if not step.startswith(("LIST SUBQUERY", "SCAN json_each"))]


def rows_of(store: SqliteStore, table: str) -> int:
    (count,) = store._reader.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


@pytest.mark.parametrize("question, by", [("cost_samples", "pipeline"), ("cost_samples_of_worker", "worker")])
def test_past_calls_of_a_pipeline_or_worker_are_found_by_its_index_and_never_sorted(store: SqliteStore, question: str, by: str) -> None:
    asked = {by: "x", "tenant": None, "limit": 1}
    steps = [row[3] for row in store._reader.execute(f"EXPLAIN QUERY PLAN {store._sql[question]}", asked)]
    assert [step for step in steps if "ledger" in step] == [f"SEARCH ledger USING INDEX ledger_by_{by} ({by}=?)"]
    assert [step for step in steps if "ORDER BY" in step] == []


def test_a_page_of_the_audit_log_is_read_by_time_and_never_sorted(store: SqliteStore) -> None:
    asked = note_question(NoteFilter(before=7, who="ann"))
    steps = [row[3] for row in store._reader.execute(f"EXPLAIN QUERY PLAN {store._sql['audit']}", asked)]
    assert "SEARCH audit USING INDEX audit_by_time (at>? AND at<?)" in steps
    assert [step for step in steps if "ORDER BY" in step] == []


# --- lists -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oldest_first", [False, True], ids=["newest first", "oldest first"])
@pytest.mark.parametrize(
    "wanted, planned",
    [
        pytest.param(Filter(), [BY_ID], id="all"),
        pytest.param(Filter(function="f"), [BY_FUNCTION], id="function"),
        pytest.param(Filter(function="f", version="1", started_after=1, started_before=2), [BY_FUNCTION], id="function and more"),
        pytest.param(Filter(function="f", statuses=(X.SUCCEEDED,)), [BY_FUNCTION], id="function, succeeded"),
        pytest.param(Filter(statuses=(X.FAILED,)), [BY_STATUS], id="status"),
        pytest.param(Filter(statuses=(X.FAILED, X.FAILED)), [BY_STATUS], id="status twice"),
        pytest.param(Filter(statuses=(X.RUNNING,), function="f"), [BY_STATUS], id="status and function"),
        pytest.param(Filter(statuses=(X.FAILED, X.STOPPED)), ["MERGE (UNION ALL)", "LEFT", BY_STATUS, "RIGHT", BY_STATUS], id="statuses"),
        pytest.param(Filter(statuses=(X.SUCCEEDED,)), [BY_ID], id="succeeded: most of them"),
        pytest.param(Filter(parent="p"), [BY_PARENT], id="parent"),
        pytest.param(Filter(parent="p", statuses=(X.RUNNING,), function="f"), [BY_PARENT], id="parent and more"),
    ],
)
def test_a_list_is_read_in_order_from_an_index_and_its_next_page_from_where_the_last_one_ended(
    store: SqliteStore, wanted: Filter, planned: list[str], oldest_first: bool
) -> None:
    asked = msgspec.structs.replace(wanted, oldest_first=oldest_first)
    assert plan(store, asked) == planned
    further = plan(store, msgspec.structs.replace(asked, beyond=id_at(T0)))
    begins = "id>?" if oldest_first else "id<?"
    found = [line.replace(f" AND {begins}", "").replace(f" ({begins})", "").replace("SEARCH", "SCAN") for line in further]
    assert found == [line.replace("SEARCH", "SCAN") for line in planned]
    assert begins in further[-1]


@pytest.mark.parametrize("more", [{}, {"statuses": (X.RUNNING,)}, {"beyond": id_at(T0)}])
def test_a_name_is_found_by_an_index_and_the_few_that_have_it_are_sorted(store: SqliteStore, more: dict[str, object]) -> None:
    found = plan(store, msgspec.structs.replace(Filter(name="n"), **more))
    assert [line for line in found if "executions" in line] == [BY_NAME, FORMERLY]
    found = plan(store, msgspec.structs.replace(Filter(name="n", function="f"), **more))
    assert [line for line in found if "executions" in line] == [BY_NAME.replace("=?", "=? AND function=?"), FORMERLY]


def test_a_bare_name_is_looked_up_without_reading_all_executions(store: SqliteStore, path: Path) -> None:
    started(store, "mine")
    answers(store, *(wanted(f"n{n}") for n in range(300)))
    with Client.open(str(path)) as client:
        reader = client._store._reader  # type: ignore[attr-defined]
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        reader.set_progress_handler(count, 10)
        assert client.get("mine").name == "mine"
        assert steps < 100, "tens of steps of SQLite's machine, not thousands"


def test_open_children_are_found_among_those_that_are_open(store: SqliteStore) -> None:
    (found,) = store._reader.execute(f"EXPLAIN QUERY PLAN {store._sql['children']}", ("p",))
    assert found[3] == "SEARCH executions USING INDEX executions_invoked (parent=?)"


# --- retention ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 4, 1000])
def test_nothing_of_an_execution_is_left_behind(store: SqliteStore, limit: int) -> None:
    suspended(store, "kept", step("s", Action.SUCCEED, payload="1"), wait("w"))
    tables = ("executions", "operations", "events", "expired", "signals")
    before = {table: rows_of(store, table) for table in tables}
    for n in range(4):
        closed(store, f"n{n}", steps=n)
    early = live(store, "early")
    written(store, Stop(early.id))
    store.expire(T0 + 365 * 86_400_000, limit)
    forgotten(store, T0 + 365 * 86_400_000, limit)
    assert {table: rows_of(store, table) for table in tables} == before


def test_no_transaction_removes_more_rows_than_it_may(store: SqliteStore) -> None:
    for n in range(6):
        closed(store, f"n{n}", steps=5 * n)
    total = sum(rows_of(store, table) for table in ("executions", "operations", "events"))
    while store.expire(DAY_LATER, 10):
        left = sum(rows_of(store, table) for table in ("executions", "operations", "events"))
        assert total - 10 <= left
        total = left
    assert total == 0


def test_no_transaction_removes_more_than_a_few_megabytes(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_BYTES", 10_000)
    header = live(store, "a")
    for n in range(20):
        header = after(store, header, step(f"s{n}", Action.SUCCEED, payload="x" * 3_000))
    written(store, Stop(header.id))
    events, most, turns = rows_of(store, "events"), 0, 0
    while store.expire(T0 + 365 * 86_400_000, 1000):
        left = rows_of(store, "events")
        most, events, turns = max(most, events - left), left, turns + 1
    assert events == 0
    assert most <= 9, "four payloads, and what lies between them"
    assert turns >= 5


def test_one_payload_larger_than_a_transaction_may_remove_is_removed_alone(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_BYTES", 1)
    closed(store, "a", steps=3)
    assert forgotten(store, DAY_LATER) > 3
    assert [rows_of(store, table) for table in ("executions", "operations", "events", "expired")] == [0, 0, 0, 0]


def test_a_start_without_a_graph_has_no_statement_about_graphs(store: SqliteStore) -> None:
    said: list[str] = []
    store._writer.set_trace_callback(said.append)
    started(store, "a")
    assert said
    assert [statement for statement in said if "graphs" in statement] == []


def test_nothing_is_written_when_nothing_is_over(store: SqliteStore) -> None:
    closed(store, "a")
    said: list[str] = []
    store._writer.set_trace_callback(said.append)
    assert not store.expire(T0, 100)
    assert said == []


def test_the_key_of_an_execution_is_used_again_only_when_nothing_of_it_is_left(store: SqliteStore) -> None:
    def key_of(name: str) -> int:
        (key,) = store._reader.execute("SELECT key FROM executions WHERE name = ?", (name,)).fetchone()
        return int(key)

    closed(store, "old", steps=10)
    old = key_of("old")
    store.expire(DAY_LATER, 5)
    started(store, "meanwhile")
    assert key_of("meanwhile") > old
    forgotten(store, DAY_LATER)
    started(store, "later")
    assert key_of("later") == key_of("meanwhile") + 1


@pytest.mark.parametrize("transactions", [1, 2, 17, 30])
def test_a_process_killed_while_it_removes_leaves_nothing_behind_after_the_next_one(
    store: SqliteStore, path: Path, transactions: int
) -> None:
    closed(store, "a", steps=15)
    remover = child("remove", path, "there", str(DAY_LATER))
    assert [heard(remover) for _ in range(transactions)] == ["removed"] * transactions
    remover.kill()
    remover.communicate()
    new = started(store, "a", now=DAY_LATER)
    forgotten(store, DAY_LATER)
    assert [rows_of(store, table) for table in ("executions", "operations", "events", "expired")] == [1, 0, 1, 0]
    assert story(store, new) == [EventType.EXECUTION_STARTED]


def test_a_removal_that_fails_changes_nothing_and_is_done_later(store: SqliteStore) -> None:
    header = closed(store, "a", steps=5)

    def no_delete(action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if (action, what) == (sqlite3.SQLITE_DELETE, "events") else sqlite3.SQLITE_OK

    store._writer.set_authorizer(no_delete)
    with pytest.raises(StoreBroken):
        store.expire(DAY_LATER, 100)
    assert not store._writer.in_transaction
    assert store.find(header.id) == header
    store._writer.set_authorizer(None)
    forgotten(store, DAY_LATER)
    assert rows_of(store, "events") == 0


# --- the outbox --------------------------------------------------------------------------------------------------------------


def test_a_batch_that_fails_tells_nothing(store: SqliteStore) -> None:
    store.subscribe("billing")

    def no_commit(action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if (action, what) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK

    store._writer.set_authorizer(no_commit)
    with pytest.raises(StoreBroken):
        started(store, "a")
    store._writer.set_authorizer(None)
    assert told(store) == []
    started(store, "b")
    assert [signal.name for signal in told(store)] == ["b"]


def test_without_subscribers_a_batch_does_not_ask_for_them_again(store: SqliteStore) -> None:
    started(store, "first")
    said: list[str] = []
    store._writer.set_trace_callback(said.append)
    header = started(store, "a")
    written(store, Stop(header.id))
    assert not [line for line in said if "subscribers" in line or "signals" in line]
    store.subscribe("billing")
    started(store, "b")
    assert [line for line in said if "INSERT INTO signals" in line]


def test_whoever_waits_for_a_delivery_only_reads(store: SqliteStore) -> None:
    store.subscribe("billing")
    store.join("there", LEASE)
    store.take_delivery("billing", "here")
    said: list[str] = []
    store._writer.set_trace_callback(said.append)
    assert store.take_delivery("billing", "there") is None
    assert said == []
