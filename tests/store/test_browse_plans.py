"""Looks of people read no more than they may: each finds its index, considers a bounded number of executions, and ends at its deadline."""

import contextlib
import itertools
import logging
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.model.browse_errors import ReadTooLong
from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.ids import Ids
from holdfast.model.operations import Action, Kind, Update
from holdfast.model.shown_status import ShownStatus
from holdfast.model.summary import Summary
from holdfast.store import rows
from holdfast.store.browse import Browse, Facet
from holdfast.store.browse_query import IndexRange, text_plan
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.seam import Hosted
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import T0, after, live, started, step
from tests.measured_time import measured_by
from tests.postgres import database, new_schema, schema_of

MANY = 6_000
SCAN = 300
INDEXES = {
    "id": "executions_by_id",
    "function": "executions_by_function",
    "tenant": "executions_by_tenant",
    "queue": "executions_by_queue",
    "error_code": "executions_by_error",
    "pipeline": "executions_by_pipeline",
    "status": "executions_by_status",
    "outcome": "executions_by_outcome",
    "named": "executions_by_name",
    "former": "executions_superseded",
}
"""The index by which the candidates of each part are found."""
NOWHERE = [
    Browse(versions=("none",)),
    Browse(functions=("f0",), versions=("none",)),
    Browse(functions=("f0", "f1", "f2"), versions=("none",)),
    Browse(tenant="acme", versions=("none",)),
    Browse(tenant="default", tenants=("default", "acme"), versions=("none",)),
    Browse(pipelines=("p0", "p1"), versions=("none",)),
    Browse(error_codes=("E0", "E1"), queues=("none",)),
    Browse(statuses=(ShownStatus.PERSON,)),
    Browse(statuses=(ShownStatus.FAILED, ShownStatus.STOPPED), versions=("none",)),
    Browse(statuses=(ShownStatus.PARTIAL, ShownStatus.OK), versions=("none",)),
    Browse(kinds=(Kind.WORKER,), versions=("none",)),
    Browse(text="name", versions=("none",)),
    Browse(text="0", versions=("none",)),
]
"""Looks that nothing matches, though many executions match a part of each."""


def many() -> list[rows.Row]:
    """The rows of many executions, of every kind that an index is made for."""
    chance = Random(1)
    ids = Ids(chance)
    made = []
    for n in range(MANY):
        at = T0 + n
        id, function = ids(at), f"f{n % 3}"
        status, state, summary = ExecutionStatus.SUCCEEDED, State.CLOSED, Summary(outcome="ok", pipeline=f"p{n % 2}")
        match n % 10:
            case 0 | 1:
                status, summary = ExecutionStatus.FAILED, Summary(error_code=f"E{n % 4}", pipeline="p0")
            case 2 | 3:
                summary = Summary(outcome="permanent_error", error_code="E0")
            case 4 | 5:
                status, state, summary = ExecutionStatus.RUNNING, State.SUSPENDED, None  # type: ignore[assignment]
            case 6:
                status = ExecutionStatus.STOPPED
            case _:
                pass
        header = Execution(
            id=id, function=function, version="$LATEST", name=f"name-{n}" if n % 2 else id, input_hash="", terms=Terms(60), started_at=at,
            deadline=at, status=status, state=state, summary=summary, tenant=(None, "default", "acme")[n % 3],
            superseded_by=id if n % 20 == 1 else None,
        )  # fmt: skip
        row = dict(zip(rows.COLUMNS["execution"], rows.execution_row(n + 1, header), strict=True))
        made.append(tuple((row | {"queue": "letters" if n % 4 == 0 else None}).values()))
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with many executions."""
    path = tmp_path_factory.mktemp("many") / "many.db"
    with contextlib.closing(SqliteStore(str(path), "maker")) as store:
        store.publish([Hosted("f1", "$LATEST", Terms(), Kind.WORKER), Hosted("f2", "$LATEST", Terms(), Kind.PIPELINE)])
        with store._transaction():
            store._put_rows("put_executions", many())
    return path


@pytest.fixture
def sqlite(path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(str(path), "here")) as store:
        yield store


@pytest.fixture(scope="module")
def where() -> str:
    """A schema with as many."""
    where = new_schema()
    with contextlib.closing(PostgresStore(where, "maker")) as store, database() as connection:
        store.publish([Hosted("f1", "$LATEST", Terms(), Kind.WORKER), Hosted("f2", "$LATEST", Terms(), Kind.PIPELINE)])
        columns, table = ", ".join(rows.COLUMNS["execution"]), f"{schema_of(where)}.executions"
        with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            for row in many():
                copy.write_row(row)
        connection.execute(f"ANALYZE {table}".encode())
    return where


@pytest.fixture
def postgres(where: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(where, "here")) as store:
        yield store


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> SqliteStore | PostgresStore:
    found: SqliteStore | PostgresStore = request.getfixturevalue(request.param)
    return found


class Spy:
    """Counts what the statements of a search may read at most."""

    def __init__(self, store: SqliteStore | PostgresStore, patch: pytest.MonkeyPatch) -> None:
        self.considered = self.counted = 0
        searching = store._search_connection

        @contextlib.contextmanager
        def spied(seconds: float) -> Iterator[Any]:
            with searching(seconds) as ask:

                def heard(question: str, asked: Mapping[str, object]) -> list[rows.Row]:
                    found = ask(question, asked)
                    most = asked.get("most", 0)
                    assert isinstance(most, int)
                    if "limit" in asked:
                        self.considered += most
                        assert len(found) <= most
                    else:
                        self.counted += int(found[0][0]) if most else 0
                    return found

                yield heard

        patch.setattr(store, "_search_connection", spied)


# --- the bound ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "look", NOWHERE, ids=lambda look: "-".join(name for name in ("functions", "tenant", "text") if getattr(look, name))
)
def test_a_look_that_nothing_matches_considers_no_more_than_it_may(
    store: SqliteStore | PostgresStore, look: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(store, monkeypatch)
    found = store.browse(msgspec.structs.replace(look, scan=SCAN), 60)
    assert (found.rows, found.more) == ((), False)
    assert spy.considered <= SCAN
    assert spy.counted <= SCAN
    counts = store.facets(msgspec.structs.replace(look, scan=SCAN), 60)
    assert counts.counted == 0
    assert spy.considered <= 2 * SCAN
    assert spy.counted <= 2 * SCAN


def test_the_next_search_goes_on_where_the_last_one_stopped(store: SqliteStore | PostgresStore) -> None:
    look, stops = Browse(functions=("f0", "f1"), versions=("none",), scan=1_000), 0
    while (found := store.browse(look, 60)).searched_to is not None:
        assert look.beyond is None or found.searched_to < look.beyond
        look, stops = msgspec.structs.replace(look, beyond=found.searched_to), stops + 1
    assert 3 < stops < 20


def test_the_filter_with_the_fewest_candidates_finds_them(store: SqliteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """All executions of one function, and one execution by the beginning of its name."""
    spy = Spy(store, monkeypatch)
    found = store.browse(Browse(functions=("f0", "f1", "f2"), text="name-4999"), 60)
    assert [row.header.name for row in found.rows] == ["name-4999"]
    assert found.searched_to is None
    assert spy.considered < 1_500


def test_a_page_that_is_full_early_considers_few(store: SqliteStore | PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(store, monkeypatch)
    assert len(store.browse(Browse(limit=20), 60).rows) == 20
    assert spy.considered <= 200


def test_facets_of_many_are_bounded_and_right(store: SqliteStore | PostgresStore) -> None:
    found = store.facets(Browse(), 60, most=1_000)
    assert (found.counted, found.bounded) == (1_000, True)
    assert found.counts[Facet.STATUS] == {"failed": 400, "ok": 300, "waiting": 200, "stopped": 100}
    assert sum(found.counts[Facet.TENANT].values()) == 1_000


# --- the plans ---------------------------------------------------------------------------------------------------------------


def parts() -> list[IndexRange]:
    return [
        *(IndexRange(name, None if name in ("id", "ended_badly") else "x") for name in INDEXES if name not in ("named", "former")),
        *text_plan("x")[:2],
    ]


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.name)
def test_sqlite_finds_the_candidates_of_a_part_in_its_index_and_their_rows_by_key(sqlite: SqliteStore, part: IndexRange) -> None:
    looks = sqlite._browse_query
    asked = looks.asked(Browse(statuses=(ShownStatus.PERSON,), tenant="acme", kinds=(Kind.WORKER,), text="x"))
    given = asked | {"lower": "0", "upper": "~", "most": 10, "limit": 10, "value": "x"}
    for name in ("browse_rows", "browse_facets"):
        text = looks.matches(name, part, asked)
        plan = [line[3] for line in sqlite._reader.execute(f"EXPLAIN QUERY PLAN {text}", given)]
        assert any(re.match(rf"SEARCH executions USING (COVERING )?INDEX {INDEXES[part.name]} ", line) for line in plan), plan
        assert any(line.startswith("SEARCH x USING INTEGER PRIMARY KEY") for line in plan), plan
        assert [line for line in plan if line.startswith(("SCAN executions", "SCAN x", "SCAN o"))] == [], plan
    (counts,) = [line[3] for line in sqlite._reader.execute(f"EXPLAIN QUERY PLAN {looks.last_of(part)}", given) if "executions" in line[3]]
    assert INDEXES[part.name] in counts
    assert "COVERING" in counts or part.name in ("named", "former")


@pytest.mark.parametrize("is_empty", [True, False], ids=["planned on empty tables", "planned on many rows"])
def test_postgres_finds_the_candidates_of_every_part_in_its_index(postgres: PostgresStore, is_empty: bool) -> None:
    with contextlib.ExitStack() as closing:
        store = closing.enter_context(contextlib.closing(PostgresStore(new_schema(), "empty"))) if is_empty else postgres
        looks = store._browse_query
        asked = looks.asked(Browse(statuses=(ShownStatus.PERSON,), tenant="acme", kinds=(Kind.WORKER,), text="x"))
        given = asked | {"lower": "0", "upper": "~", "most": 10, "limit": 10, "value": "f0"}
        for part in parts():
            text = looks.matches("browse_rows", part, asked)
            plan = "\n".join(line for (line,) in store._side.run(f"EXPLAIN {text}".encode(), given, prepare=False))
            assert "Seq Scan" not in plan
            assert INDEXES[part.name] in re.findall(r"using (\w+) on executions", plan), (part.name, plan)


@pytest.mark.parametrize(
    "part",
    [IndexRange("id"), IndexRange("function", "f0"), IndexRange("status", "FAILED"), IndexRange("outcome", "permanent_error")],
    ids=lambda part: part.name,
)
def test_postgres_reads_no_more_rows_than_a_step_may(postgres: PostgresStore, part: IndexRange) -> None:
    looks, most = postgres._browse_query, 77
    asked = looks.asked(Browse(versions=("none",)))
    given = asked | {"lower": "0", "upper": "~", "most": most, "limit": 50, "value": part.value}
    text = looks.matches("browse_rows", part, asked)
    plan = "\n".join(line for (line,) in postgres._side.run(f"EXPLAIN (ANALYZE, TIMING OFF) {text}".encode(), given, prepare=False))
    (read,) = re.findall(rf"using {INDEXES[part.name]} on executions.*?actual rows=(\d+)", plan)
    assert int(read) == most, plan
    assert "Rows Removed by Filter" not in plan.split(INDEXES[part.name])[1], "every candidate is one of the part"


# --- the deadline, and the connection ----------------------------------------------------------------------------------------


def test_a_look_ends_at_its_deadline_in_the_middle_of_a_statement(sqlite: SqliteStore) -> None:
    ticks = itertools.count()
    with measured_by(lambda: float(next(ticks))), pytest.raises(ReadTooLong) as refused:
        sqlite.browse(Browse(versions=("none",)), 8.0)
    assert refused.value.code == "read_too_long"
    assert sqlite.browse(Browse(), 60).rows


def test_postgres_ends_a_statement_at_the_deadline(postgres: PostgresStore) -> None:
    with pytest.raises(ReadTooLong), postgres._search_connection(0.2) as ask:
        ask("SELECT pg_sleep(%(seconds)s)", {"seconds": 30})
    assert postgres.browse(Browse(), 60).rows


def test_the_connection_of_looks_cannot_write(store: SqliteStore | PostgresStore) -> None:
    with pytest.raises(Exception, match=r"may not write|read-only"), store._search_connection(60) as ask:
        ask("DELETE FROM executions", {})


def test_a_look_does_not_wait_for_a_batch(path: Path, sqlite: SqliteStore) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with sqlite._write_lock, sqlite._read_lock:
            assert sqlite.browse(Browse(), 60).rows
        other.execute("ROLLBACK")


def test_a_damaged_row_is_left_out_and_the_page_is_full_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(SqliteStore(str(tmp_path / "a.db"), "here")) as store:
        made = [started(store, f"n{n}", T0 + n) for n in range(8)]
        for n, wrong in ((6, "status = 'GONE'"), (5, "trace = CAST(x'ff' AS TEXT)"), (3, "state = 'lost'")):
            store._writer.execute(f"UPDATE executions SET {wrong} WHERE id = ?", (made[n].id,))
        with caplog.at_level(logging.ERROR, "holdfast.store"):
            first = store.browse(Browse(limit=3), 60)
            second = store.browse(Browse(limit=3, beyond=first.rows[-1].header.id), 60)
        shown = [[row.header.name for row in page.rows] for page in (first, second)]
        assert (shown, first.more, second.more) == ([["n7", "n4", "n2"], ["n1", "n0"]], True, False)
        assert sum("left out of lists" in record.message for record in caplog.records) == 3


def test_an_outline_of_many_operations_reads_no_payload(tmp_path: Path) -> None:
    with contextlib.closing(SqliteStore(str(tmp_path / "a.db"), "here")) as store:
        header = live(store, "a")
        for n in range(4):
            updates: list[Update] = [step(f"s{n}-{m}", Action.SUCCEED, payload='"' + "x" * 1000 + '"') for m in range(50)]
            header = after(store, header, *updates)
        plan = [line[3] for line in store._reader.execute(f"EXPLAIN QUERY PLAN {store._sql['outline']}", ("", 0))]
        assert not any("events" in line for line in plan), plan
        found = store.outline(header.id)
        assert (len(found), {operation.result for operation in found}) == (200, {None})
