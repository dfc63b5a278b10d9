"""Damaged rows among good ones: lists, signals and credentials show the good ones, on both stores."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.errors import RowDamaged, StoreBroken
from holdfast.model.schedule_times import Timing
from holdfast.model.schedules import Definition, Origin, new_schedule
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.seam import Filter, Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import LEASE, at, names, started
from tests.postgres import database, empty_store, schema_of

Damage = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Damage]]:
    """A store, and a way to change its rows behind its back."""
    if request.param == "sqlite":
        where = str(tmp_path / "store.db")

        def change(statement: str) -> None:
            with contextlib.closing(sqlite3.connect(where)) as rows:
                assert rows.execute(statement).rowcount > 0
                rows.commit()

        store: Store = SqliteStore(where, "here")
    else:
        where = empty_store()
        store = PostgresStore(where, "here")

        def change(statement: str) -> None:
            with database() as rows:
                rows.execute(f"SET search_path TO {schema_of(where)}".encode())
                assert rows.execute(statement.encode()).rowcount > 0

    with contextlib.closing(store):
        store.join("here", LEASE)
        yield store, change


def test_a_damaged_execution_is_left_out_of_lists_and_pages_go_on_behind_it(damaged: tuple[Store, Damage]) -> None:
    store, change = damaged
    for number in range(9):
        started(store, f"n{number}", now=at(number))
    change("UPDATE executions SET status = 'NONSENSE' WHERE name IN ('n3', 'n4', 'n8')")
    assert names(store.list(Filter())) == ["n7", "n6", "n5", "n2", "n1", "n0"]
    seen: list[str] = []
    beyond = None
    while page := store.list(Filter(limit=2, beyond=beyond)):
        seen += names(page)
        beyond = page[-1].id
        assert len(page) == 2
    assert seen == ["n7", "n6", "n5", "n2", "n1", "n0"], "a page that is not full would be taken for the last one"


def test_a_name_that_is_no_text_leaves_one_execution_out_of_a_list(tmp_path: Path) -> None:
    where = tmp_path / "store.db"
    with contextlib.closing(SqliteStore(str(where), "here")) as store:
        for number in range(3):
            started(store, f"n{number}", now=at(number))
        with contextlib.closing(sqlite3.connect(where)) as rows:
            rows.execute("UPDATE executions SET version = CAST(x'ff41' AS TEXT) WHERE name = 'n1'")
            rows.commit()
        assert names(store.list(Filter())) == ["n2", "n0"]
        assert store.find_named("order", "n2") is not None


def test_a_damaged_signal_is_passed_over_and_those_behind_it_are_delivered(damaged: tuple[Store, Damage]) -> None:
    store, change = damaged
    store.subscribe("ear")
    for number in range(5):
        started(store, f"n{number}", now=at(number))
    change("UPDATE signals SET status = 'NONSENSE' WHERE name IN ('n0', 'n1', 'n3')")
    after = store.take_delivery("ear", "here")
    assert after is not None
    assert [signal.name for signal in store.signals("ear", "here", after, 2) or ()] == ["n2", "n4"]
    assert [signal.name for signal in store.kept_signals(0, 100)] == ["n2", "n4"]


def test_a_damaged_schedule_is_left_out_of_lists_and_told_where_it_is_asked_for(damaged: tuple[Store, Damage]) -> None:
    store, change = damaged
    for name in ("a", "b", "c"):
        definition = Definition(function="order", timing=Timing(every=60))
        store.put_schedule(new_schedule(name, definition, "{}", origin=Origin.CLI, now=at(0)))
    change("UPDATE schedules SET body = '{' WHERE name = 'b'")
    assert [state.name for state in store.schedules("", 10)] == ["a", "c"]
    assert sorted(store.due_schedules(["order"], at(60), 10)) == ["a", "b", "c"]
    with pytest.raises(RowDamaged):
        store.schedule("b")


def credential(name: str) -> Credential:
    return Credential(id=name, kind=CredentialKind.TOKEN, secret=f"hash-{name}", roles=(Role.ADMIN,), created_at=0)


def test_a_damaged_credential_admits_no_caller_and_the_others_stay_good(damaged: tuple[Store, Damage]) -> None:
    store, change = damaged
    store.put_credential(credential("good"))
    store.put_credential(credential("bad"))
    change("UPDATE credentials SET roles = 'king' WHERE id = 'bad'")
    assert [found.id for found in store.credentials()] == ["good"]
    store.remove_credential("good")
    with pytest.raises(RowDamaged):  # a store without any would let this machine ask without one
        store.credentials()


def test_damage_that_sqlite_names_by_bytes_that_are_no_text_is_explained_to_all_readers_and_writers(tmp_path: Path) -> None:
    where = tmp_path / "store.db"
    with contextlib.closing(SqliteStore(str(where), "here")) as store:
        header = started(store, "a")
        copy = store.snapshot(header.id)
        assert copy is not None
        schedule = new_schedule("s", Definition(function="order", timing=Timing(every=60)), "1", origin=Origin.CLI, now=at(0))
        with contextlib.closing(sqlite3.connect(where, isolation_level=None)) as rows:
            rows.execute("PRAGMA writable_schema = on")
            rows.execute("UPDATE sqlite_master SET sql = 'CREATE nonsense', name = CAST(x'ff41' AS TEXT) WHERE name = 'graphs'")
            (version,) = rows.execute("PRAGMA schema_version").fetchone()
            rows.execute(f"PRAGMA schema_version = {version + 1}")  # the others read the schema again
        for verb in (lambda: store.snapshot(header.id), lambda: store.adopt(copy), lambda: store.put_schedule(schedule)):
            with pytest.raises(StoreBroken, match=r"store\.db is damaged"):
                verb()
