"""The rows of the audit log in SQLite: added, never changed, and the same in a store that was made by an older version."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from holdfast.model.audit import Actor, NoteFilter
from holdfast.store.backends import open_store

NOTES = Actor(who="ann", origin="cli").did("stop", "e-1", "stopped", 1_000)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another program that has the file of a store with one note."""
    where = str(tmp_path / "store.db")
    with contextlib.closing(open_store(where, "here")) as store:
        store.note(NOTES)
        with contextlib.closing(sqlite3.connect(where, isolation_level=None)) as connection:
            yield connection
        assert [noted.note for noted in store.audit(NoteFilter())] == list(NOTES)


@pytest.mark.parametrize("statement", ["UPDATE audit SET who = 'bob'", "DELETE FROM audit", "UPDATE audit SET expires_at = 0"])
def test_a_line_of_the_log_cannot_be_changed_or_removed(beside: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="only added to"):
        beside.execute(statement)


def test_the_migration_makes_what_a_new_store_has(beside: sqlite3.Connection) -> None:
    old = sqlite3.connect(":memory:", isolation_level=None)
    old.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    old.execute("CREATE TABLE executions (id TEXT)")
    old.execute("INSERT INTO executions VALUES ('a'), ('b')")
    old.execute("CREATE TABLE functions (name TEXT, version TEXT, PRIMARY KEY (name, version)) WITHOUT ROWID")
    old.execute("INSERT INTO functions VALUES ('f', '1')")
    for step in ("008_audit", "018_audit_by_time"):
        text = (resources.files("holdfast.store.sqlite") / "migrations" / f"{step}.before.sql").read_text()
        for statement in text.split(";\n"):
            old.execute(statement)
    for question in (
        "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'audit' AND name NOT LIKE 'sqlite_%' ORDER BY name",
        "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info('functions') WHERE name = 'kind'",
    ):
        assert old.execute(question).fetchall() == beside.execute(question).fetchall()
    assert old.execute("SELECT value FROM meta WHERE key = 'unmarked'").fetchall() == [("b",)]
    assert old.execute("SELECT kind FROM functions").fetchall() == [("function",)]
    old.close()
