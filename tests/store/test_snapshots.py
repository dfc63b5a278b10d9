"""Snapshots: rows go out and come in again as they were, also in the states that pass quickly."""

import contextlib
import sqlite3
from pathlib import Path

import msgspec

from holdfast.exports.exporting import exported
from holdfast.exports.importing import copied, read
from holdfast.model.execution import State, graph_text
from holdfast.model.operations import Action
from holdfast.store.seam import Snapshot
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import LEASE, OOPS, T0, after, callback, execution_succeeds, live, now_at, step, wait, wanted, written


def opened(path: Path, member: str = "here") -> "contextlib.closing[SqliteStore]":
    return contextlib.closing(SqliteStore(str(path), member))


def snapshot(store: SqliteStore, execution: str) -> Snapshot:
    found = store.snapshot(execution)
    assert found is not None
    return found


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def test_a_copy_has_the_very_rows_of_the_original(tmp_path: Path) -> None:
    with opened(tmp_path / "one.db") as one, opened(tmp_path / "two.db") as two:
        header = live(
            one,
            "a",
            step("s", Action.SUCCEED, payload='"done"'),
            step("f", Action.FAIL, error=OOPS),
            step("r", Action.RETRY, error=OOPS, delay_seconds=5),
            wait("w"),
            callback("c", 60, 30),
        )
        assert two.adopt(snapshot(one, header.id))
        assert snapshot(two, header.id).events == snapshot(one, header.id).events
    for table in ("executions", "operations", "events"):
        assert rows(tmp_path / "one.db", table) == rows(tmp_path / "two.db", table)


def test_an_export_carries_the_graph_and_an_import_writes_it(tmp_path: Path) -> None:
    graph = graph_text('{"nodes":["ä"]}')
    with opened(tmp_path / "one.db") as one, opened(tmp_path / "two.db") as two, opened(tmp_path / "bare.db") as bare:
        header = written(one, msgspec.structs.replace(wanted("a"), graph=graph))
        document = exported(snapshot(one, header.id), T0, include_data=True)
        assert (document["graph"], document["execution"]["graph"]) == (graph.text, graph.id)
        assert two.adopt(copied(read(document).snapshot, T0))
        assert (now_at(two, header).graph, two.graph(graph.id)) == (graph.id, graph.text)
        assert exported(snapshot(two, header.id), T0, include_data=True)["graph"] == graph.text
        without = exported(snapshot(one, header.id), T0, include_data=False)
        assert ("graph" in without, without["execution"]["graph"]) == (False, graph.id), "a graph is data, as a payload is"
        assert bare.adopt(copied(read(without).snapshot, T0))
        assert (now_at(bare, header).graph, bare.graph(graph.id)) == (None, None)


def test_an_export_without_a_graph_has_no_member_that_earlier_releases_refuse(tmp_path: Path) -> None:
    with opened(tmp_path / "one.db") as one:
        document = exported(snapshot(one, live(one, "a").id), T0, include_data=True)
        assert "graph" not in document.keys() | document["execution"].keys()


def test_a_closing_execution_keeps_the_end_that_nobody_sees_yet(tmp_path: Path) -> None:
    with opened(tmp_path / "one.db") as one, opened(tmp_path / "two.db") as two:
        one.join("here", LEASE)
        header = after(one, live(one, "a"), execution_succeeds('"the end"'))
        assert header.state is State.CLOSING
        document = exported(snapshot(one, header.id), T0, include_data=True)
        assert two.adopt(copied(read(document).snapshot, T0))
        copy = now_at(two, header)
        assert (copy.state, copy.status) == (State.IMPORTED, "SUCCEEDED")
        assert two.result(copy) == '"the end"'
        assert [line.event.number for line in two.history(header.id)] == [1]
        assert [event.number for event in snapshot(two, header.id).events] == [1, 3]
        again = exported(snapshot(two, header.id), T0, include_data=True)
        assert again["events"] == document["events"]
        assert not two.adopt(copied(read(again).snapshot, T0))
