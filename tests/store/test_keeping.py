"""What an operator does with a store: a check that finds each kind of damage, copies made under load, and their return."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.errors import HoldfastError, InvalidParameter, StoreBroken, StoreInUse, StoreNotFound, StoreUnsuitable
from holdfast.store.backends import open_maintenance
from holdfast.store.maintenance import Maintenance
from holdfast.store.postgres.connection import load_statements
from holdfast.store.postgres.maintenance import PostgresMaintenance
from holdfast.store.sqlite import restore as restoring
from holdfast.store.sqlite.connection import load_queries
from holdfast.store.sqlite.schema_migrations import SCHEMA_VERSION, check_unused
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import LEASE, T0, closed, started, suspended, wait
from tests.postgres import database, new_schema, schema_of
from tests.store.files import quick_store
from tests.store.released import migrated, old_postgres, old_sqlite
from tests.unit.source_files import ROOT

DAMAGE = {
    "events_missing": "DELETE FROM events WHERE number = 2 AND execution = 3",
    "events_beyond": "INSERT INTO events (execution, number, type, at) VALUES (4, 99, 'x', 0)",
    "operations_count": "DELETE FROM operations WHERE execution = 5",
    "operations_without_event": "UPDATE operations SET payload_event = 77 WHERE execution = 8",
    "results_missing": "UPDATE executions SET result_event = 88 WHERE key = 1",
    "orphaned_events": "INSERT INTO events (execution, number, type, at) VALUES (999, 1, 'x', 0)",
    "orphaned_operations": (
        "INSERT INTO operations (execution, id, type, status, started_at, attempt, heartbeat_ms, replay_children, place, revision)"
        " VALUES (998, 'o', 'STEP', 'STARTED', 0, 0, 0, 0, 1, 1)"
    ),
    "names_shared": "DROP INDEX executions_by_name; UPDATE executions SET name = 'same', function = 'f' WHERE key IN (6, 7)",
    "superseded_without_failure": "UPDATE executions SET superseded_by = (SELECT id FROM executions WHERE key = 9) WHERE key = 8",
    "quarantine_unknown": "UPDATE executions SET quarantine = 'boredom' WHERE key = 8",
    "ids_shared": "DROP INDEX executions_by_id; UPDATE executions SET id = 'same' WHERE key IN (6, 7)",
    "states_contradict": "UPDATE executions SET ended_at = NULL WHERE key = 2",
    "timers_forgotten": "UPDATE executions SET due_at = NULL WHERE key = 6",
    "graphs_missing": "UPDATE executions SET graph = 'absent' WHERE key = 8",
    "graphs_unused": "INSERT INTO graphs (id, text) VALUES ('unused', '{}')",
    "lanes_miscounted": ("INSERT INTO lanes (key, queue, parent, level, at_once, held) VALUES ('q', 'q', '', 'queue', 9, 1)"),
    "lanes_money": "INSERT INTO lanes (key, queue, parent, level, at_once, money) VALUES ('m', 'm', '', 'queue', 9, 1)",
    "ledger_sums": (
        "INSERT INTO ledger_days (day, tenant, pipeline, node, worker, model, state, expires_at, calls, input, output, cached, reasoning,"
        " nanos, held_tokens, held_nanos) VALUES (1, 't', '', '', 'w', 'm', 'settled', 9, 1, 1, 0, 0, 0, 5, 0, 0)"
    ),
    "ledger_ends": (
        "INSERT INTO ledger (at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached,"
        " reasoning, nanos, held_tokens, held_nanos, price_source, price_date, expires_at)"
        " SELECT 1, 1, 't', '', '', 'w', 'r', 'r', 'r', '', 'c', 'm', state, 0, 0, 0, 0, 0, 0, 0, '', '', 0"
        " FROM (SELECT 'settled' AS state UNION ALL SELECT 'unknown') AS two"
    ),
    "summaries_contradict": "UPDATE executions SET outcome = 'ok' WHERE status = 'RUNNING'",
    "lanes_lost": "INSERT INTO lanes (key, queue, parent, level, at_once) VALUES ('p/tenant=a', 'p', 'p', 'tenant', 9)",
    "rates_lost": "INSERT INTO rates (lane, kind, step_ns, burst) VALUES ('absent', 'runs', 1, 1)",
    "signals_from_the_future": "UPDATE subscribers SET cursor = 1000",
}
ONLY_SQLITE = {"seal_missing": "DELETE FROM meta WHERE key = 'seal'"}
ONLY_POSTGRES = {
    "numbering_missing": "INSERT INTO numbering (last) VALUES (12)",
    "keys_used_again": "SELECT setval('execution_keys', 1); UPDATE executions SET key = 5000 WHERE key = 10",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound store with something of everything in it."""
    path = old_sqlite(tmp_path)
    migrated(str(path))
    return path


def kept(where: Path | str) -> Maintenance:
    return open_maintenance(str(where), "operator")


def run(path: Path, statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


def names(keeping: Maintenance) -> set[str]:
    return {finding.name for finding in keeping.check(quick=False).findings}


# --- check -------------------------------------------------------------------------------------------------------------------


def test_a_sound_store_has_no_findings_of_whatever_release_it_is(tmp_path: Path) -> None:
    path = old_sqlite(tmp_path)
    found = kept(path).check(quick=False)
    assert (found.numbers, found.behind, found.findings) == ((6, 6), True, [])
    migrated(str(path))
    found = kept(path).check(quick=True)
    assert (found.behind, found.findings) == (False, [])


@pytest.mark.parametrize("name", DAMAGE | ONLY_SQLITE)
def test_each_kind_of_damage_to_rows_is_found_by_name(path: Path, name: str) -> None:
    run(path, (DAMAGE | ONLY_SQLITE)[name])
    assert name in names(kept(path))


def test_every_question_is_known_to_find_something() -> None:
    assert load_queries("checks.sql").keys() == (DAMAGE | ONLY_SQLITE).keys()
    assert load_statements("checks.sql").keys() == (DAMAGE | ONLY_POSTGRES).keys()


def test_damage_in_a_schema_is_found_by_name() -> None:
    where = old_postgres()
    assert kept(where).check(quick=False) == ((4, 4), True, [])
    migrated(where)
    with database() as rows:
        rows.execute(f"SET search_path = {schema_of(where)}".encode())
        for statement in (DAMAGE | ONLY_POSTGRES).values():
            rows.execute(statement.encode())
    assert names(kept(where)) == (DAMAGE | ONLY_POSTGRES).keys()


def test_damaged_pages_are_found_and_do_not_hide_behind_an_error(path: Path) -> None:
    whole = path.read_bytes()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'executions_by_function'").fetchone()
    path.write_bytes(whole[: 2048 * (page - 1)] + bytes(2048) + whole[2048 * page :])
    assert "file_damaged" in names(kept(path))


def test_a_check_changes_nothing_and_does_not_migrate(tmp_path: Path) -> None:
    path = old_sqlite(tmp_path)
    before = path.read_bytes()
    kept(path).check(quick=False)
    kept(path).size(T0)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("verb", ["check", "size", "migrate"])
def test_what_is_not_there_is_not_made_by_looking(tmp_path: Path, verb: str) -> None:
    for where in (str(tmp_path / "none.db"), new_schema()):
        asked: dict[str, Callable[[Maintenance], object]] = {
            "check": lambda keeping: keeping.check(quick=False),
            "size": lambda keeping: keeping.size(T0),
            "migrate": lambda keeping: keeping.migrate(after=False),
        }
        with pytest.raises(StoreNotFound):
            asked[verb](kept(where))
    assert list(tmp_path.iterdir()) == []


# --- size --------------------------------------------------------------------------------------------------------------------


def test_the_size_is_told_by_table_with_what_retention_can_remove(path: Path) -> None:
    found = kept(path).size(T0 + 10**12)
    assert {table.name: table.rows for table in found.tables if table.rows > 9} == {
        "executions": 10,
        "operations": 24,
        "events": 52,
        "signals": 12,
    }
    assert found.bytes == path.stat().st_size
    assert 0.8 * found.bytes < sum(table.bytes or 0 for table in found.tables) < found.bytes
    assert (found.over, found.kept) == ((2, 85), (0, 0))
    assert kept(path).size(T0).kept == (2, 85)


def test_the_size_of_a_schema_is_told_too() -> None:
    found = kept(old_postgres()).size(T0)
    assert {table.name: table.rows for table in found.tables}["events"] == 52
    assert found.bytes > 52 * 100
    assert (found.over, found.kept) == ((0, 0), (2, 85))


# --- backup ------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def written_to(path: Path) -> Iterator[list[str]]:
    """A store that is written to all the time; what was acknowledged is told in order."""
    store, told, enough = quick_store(path, "writer"), list[str](), threading.Event()

    def write() -> None:
        while not enough.is_set():
            told.append(closed(store, f"n{len(told)}", steps=2, retention_days=1000).id)

    store.join("writer", LEASE)
    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield told
    finally:
        enough.set()
        thread.join()
        store.close()


def until(told: list[str], count: int) -> None:
    while len(told) < count:
        pass


def test_a_copy_made_while_others_write_is_sound_and_goes_on(tmp_path: Path) -> None:
    path, copies = tmp_path / "s.db", [tmp_path / f"copy-{n}.db" for n in range(3)]
    sure = []
    with written_to(path) as told:
        for copy in copies:
            until(told, len(told) + 5)
            before = len(told)
            kept(path).backup(copy, replace=False)
            sure.append(before)
    for copy, count in zip(copies, sure, strict=True):
        assert copy.stat().st_mode & 0o777 == 0o600
        assert kept(copy).check(quick=False).findings == []
        with contextlib.closing(SqliteStore(str(copy), "here")) as store:
            store.join("here", LEASE)
            assert all(store.find(execution) is not None for execution in told[:count]), "what was acknowledged before is in the copy"
            suspended(store, "goes on", wait("w"))
    assert sure == sorted(sure)


def test_a_plain_copy_of_a_live_file_lacks_what_lies_in_its_log(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with contextlib.closing(SqliteStore(str(path), "here")) as store:
        header = started(store, "a")
        shutil.copy(path, tmp_path / "plain.db")
        kept(path).backup(tmp_path / "good.db", replace=False)
    for name, there in (("plain.db", False), ("good.db", True)):
        with contextlib.closing(SqliteStore(str(tmp_path / name), "there")) as copy:
            assert (copy.find(header.id) is not None) is there


def test_a_copy_is_never_written_over_unless_the_operator_says_so(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(InvalidParameter, match=r"already a file .*--force"):
        kept(path).backup(target, replace=False)
    assert target.read_text() == "precious"
    kept(path).backup(target, replace=True)
    assert target.stat().st_mode & 0o777 == 0o600
    assert kept(target).check(quick=False).findings == []
    with pytest.raises(InvalidParameter, match="is the store itself"):
        kept(path).backup(path, replace=True)
    with pytest.raises(InvalidParameter, match="could not be written: No such file"):
        kept(path).backup(tmp_path / "nowhere" / "copy.db", replace=False)


# --- restore -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A copy of the store, from before one more execution."""
    copy = tmp_path / "copy.db"
    kept(path).backup(copy, replace=False)
    with contextlib.closing(SqliteStore(str(path), "here")) as store:
        started(store, "later")
    return copy


def executions(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM executions").fetchone()[0])


def test_a_copy_takes_the_place_of_a_store_that_is_kept_aside(path: Path, copy: Path) -> None:
    aside = kept(path).restore(copy)
    assert aside == path.with_name("old.db.before-restore")
    assert (executions(path), executions(aside)) == (10, 11)
    assert aside.stat().st_mode & 0o777 == 0o600
    assert kept(path).check(quick=False).findings == []
    assert kept(path).restore(aside) == path.with_name("old.db.before-restore.2")
    assert executions(path) == 11


def test_nothing_is_restored_while_a_process_has_the_store_open(path: Path, copy: Path) -> None:
    with contextlib.closing(SqliteStore(str(path), "runner-1")) as store:
        with pytest.raises(StoreInUse, match=rf"runner-1 \(process {os.getpid()}\)\. Stop"):
            kept(path).restore(copy)
        started(store, "goes on")
    assert executions(path) == 12


def test_a_process_that_opens_the_store_at_the_last_moment_keeps_it(path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[SqliteStore] = []
    first_look = check_unused

    def looked(where: str, why: str) -> None:
        first_look(where, why)
        if not late:
            late.append(SqliteStore(where, "late"))

    monkeypatch.setattr(restoring, "check_unused", looked)
    with pytest.raises(StoreInUse, match="late"):
        kept(path).restore(copy)
    started(late[0], "goes on")
    late[0].close()
    assert executions(path) == 12


def test_a_store_that_is_damaged_or_gone_is_replaced_too(path: Path, copy: Path) -> None:
    path.write_bytes(b"garbage" * 1000)
    aside = kept(path).restore(copy)
    assert aside is not None
    assert aside.read_bytes() == b"garbage" * 1000
    assert executions(path) == 10
    path.unlink()
    assert kept(path).restore(copy) is None
    assert executions(path) == 10
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_kill_at_any_moment_of_a_restore_leaves_the_old_store_or_the_new_one(path: Path, copy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.store.dying", str(path), str(folder), str(copy)]
    points = int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    left = []
    for point in range(1, points + 1):
        killed = folder / str(point) / "store.db"
        assert kept(killed).check(quick=False).findings == [], f"killed at point {point} of {points}"
        left.append(executions(killed))
    assert (left[0], left[-1]) == (11, 10)
    assert left == sorted(left, reverse=True), "from one moment on it is the new one"


def test_only_a_sound_store_is_put_in_the_place_of_a_store(path: Path, tmp_path: Path) -> None:
    def refused(bad: Path) -> HoldfastError:
        with pytest.raises(HoldfastError) as raised:
            kept(path).restore(bad)
        assert str(bad) in str(raised.value)
        return raised.value

    assert isinstance(refused(tmp_path / "none"), StoreNotFound)
    assert isinstance(refused(path), InvalidParameter)
    text, other, torn = tmp_path / "text", tmp_path / "other.db", tmp_path / "torn.db"
    text.write_text("Dear diary")
    run(other, "CREATE TABLE diary (day TEXT)")
    torn.write_bytes(path.read_bytes()[: 2048 * 20])
    assert isinstance(refused(text), StoreUnsuitable)
    assert isinstance(refused(other), StoreUnsuitable)
    assert isinstance(refused(torn), StoreBroken)
    assert executions(path) == 10


def test_a_newer_store_can_be_replaced_by_the_copy_from_before_its_migration(path: Path) -> None:
    run(path, "PRAGMA user_version = 99; UPDATE meta SET value = 99 WHERE key = 'least'")
    kept(path).restore(path.with_name(f"old.db.before-{SCHEMA_VERSION}"))
    assert kept(path).check(quick=False).numbers == (6, 6)


# --- Postgres's own tools ----------------------------------------------------------------------------------------------------


def test_for_a_schema_the_tools_of_postgres_are_named_with_their_commands_and_without_the_password() -> None:
    keeping = PostgresMaintenance("postgresql://me:secret@db.internal:5433/shop?schema=orders&sslmode=require")
    with pytest.raises(InvalidParameter) as backup:
        keeping.backup(Path("copy.dump"), replace=False)
    with pytest.raises(InvalidParameter) as restore:
        keeping.restore(Path("copy.dump"))
    address = "'postgresql://me@db.internal:5433/shop?sslmode=require'"
    assert f"pg_dump --format=custom --schema=orders --file=copy.dump {address}" in str(backup.value)
    assert "pg_restore --clean --if-exists --single-transaction" in str(restore.value)
    assert "secret" not in str(backup.value) + str(restore.value)
