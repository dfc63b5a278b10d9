"""Migrations, as each store applies them: in order, all or nothing, once, and never under code that cannot bear them."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.model.clock import SystemClock
from holdfast.model.errors import HoldfastError, StoreBroken, StoreInUse, StoreNotMigrated, StoreUnsuitable
from holdfast.model.execution import ExecutionStatus, Terms, graph_text
from holdfast.model.outside import Stop
from holdfast.model.verbs import Started
from holdfast.service.settings import Settings
from holdfast.store import schema_migrations
from holdfast.store.backends import open_maintenance, open_store
from holdfast.store.postgres import schema_migrations as postgres
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.schema_migrations import MigrationStep, Numbers, SchemaLineage, SchemaStatus
from holdfast.store.seam import Filter, Hosted, Target
from holdfast.store.sqlite import schema_migrations as sqlite
from holdfast.store.sqlite.presence import Presence
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.queue_writes import admitted_names, claimant, declare, ended, several
from holdfast.testing.stores.writes import LEASE, T0, answers, closed, forgotten, id_at, started, story, suspended, wait, wanted, written
from tests.postgres import database, new_schema, schema_of
from tests.store.children import child, heard, told
from tests.store.flight import CREDENTIALS
from tests.store.released import POSTGRES, apply_after, migrated, old_postgres, old_sqlite, sqlite_shape
from tests.unit.source_files import ROOT

BEFORE_QUEUES = next(half.number for half in sqlite.LINEAGE.steps() if half.words == "queues") - 1
"""The schema of a file before it had queues."""
both = pytest.mark.parametrize("lineage", [sqlite.LINEAGE, postgres.LINEAGE], ids=["sqlite", "postgres"])
TABLES = (
    *("executions", "operations", "events", "functions", "expired", "signals", "subscribers", "credentials", "counters", "runners"),
    *("graphs", "queues", "lanes", "rates", "schedules"),
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return old_sqlite(tmp_path)


def sqlite_numbers(path: Path) -> Numbers:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        least = connection.execute("SELECT value FROM meta WHERE key = 'least'").fetchone()
    return Numbers(version, least[0] if least else version)


def postgres_numbers(where: str) -> Numbers:
    with database() as connection:
        metas: dict[str, str] = dict(connection.execute(f"SELECT key, value FROM {schema_of(where)}.meta".encode()).fetchall())
    return postgres.numbers_of(metas)


@contextlib.contextmanager
def a_later_release(lineage: SchemaLineage, *more: MigrationStep) -> Iterator[None]:
    """Code that knows these steps too."""
    with pytest.MonkeyPatch.context() as patch:
        steps = sorted([*lineage.steps(), *more])
        patch.setattr(lineage, "newest", steps[-1].number)
        patch.setattr(lineage, "steps", lambda: steps)
        yield


def step(number: int, text: str, *, after: bool = False) -> MigrationStep:
    return MigrationStep(number, after, "made by a test", text)


def a_column_more(lineage: SchemaLineage) -> MigrationStep:
    """A step that adds a column to every table."""
    return step(lineage.newest + 1, "".join(f"ALTER TABLE {table} ADD COLUMN extra TEXT DEFAULT 'x';\n" for table in TABLES))


# --- the files ---------------------------------------------------------------------------------------------------------------


@both
def test_steps_are_numbered_without_a_gap_and_the_newest_is_the_codes_own_number(lineage: SchemaLineage) -> None:
    numbers = [step.number for step in lineage.steps() if not step.after]
    assert numbers == list(range(lineage.oldest + 1, lineage.newest + 1))
    assert {step.number for step in lineage.steps() if step.after} <= set(numbers)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_every_file_among_the_steps_is_one(backend: str) -> None:
    folder = ROOT / "src/holdfast/store" / backend / "migrations"
    assert [file.name for file in folder.iterdir() if not schema_migrations._NAME.fullmatch(file.name)] == []


@both
def test_what_comes_before_a_deployment_only_adds(lineage: SchemaLineage) -> None:
    adding = re.compile(r"CREATE (TABLE|INDEX|SEQUENCE|TRIGGER) |ALTER TABLE \w+ ADD COLUMN (?!.*NOT NULL(?!.*DEFAULT))|INSERT INTO meta ")
    for half in lineage.steps():
        if not half.after:
            assert [statement for statement in half.statements() if not adding.match(statement)] == []


# --- which code may use which store ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, least, status",
    [
        (6, 6, SchemaStatus.BEHIND),
        (8, 7, SchemaStatus.BEHIND),
        (9, 7, SchemaStatus.USABLE),
        (9, 9, SchemaStatus.USABLE),
        (11, 9, SchemaStatus.USABLE),
    ],
)
def test_code_may_use_what_is_not_newer_than_it_can_bear(version: int, least: int, status: SchemaStatus) -> None:
    assert SchemaLineage("holdfast.store.sqlite", oldest=6, newest=9).status("s.db", Numbers(version, least)) is status


@pytest.mark.parametrize(
    "version, least, told",
    [
        (5, 5, "s.db has schema version 5; this Holdfast migrates version 6 and newer. Let its executions end under"),
        (11, 10, "s.db has schema version 11 and may be used by code of version 10 or newer; this Holdfast has version 9. Install the"),
    ],
)
def test_what_is_too_old_or_too_new_is_refused_with_what_to_do(version: int, least: int, told: str) -> None:
    with pytest.raises(StoreUnsuitable) as refused:
        SchemaLineage("holdfast.store.sqlite", oldest=6, newest=9).status("s.db", Numbers(version, least))
    assert str(refused.value).startswith(told)


def _works(where: str) -> None:
    """Write and read every kind of row."""
    with contextlib.closing(open_store(where, "r1")) as store:
        store.join("r1", LEASE)
        store.subscribe("billing")
        store.publish([Hosted("f", "1", Terms(60, 1))])
        store.put_credential(CREDENTIALS[0])
        over, waiting = closed(store, "a", steps=2), suspended(store, "b", wait("w"), runner="r1")
        assert [len(store.operations(x.id)) for x in (over, waiting)] == [2, 1]
        assert len(store.history(over.id)) == len(story(store, over)) == 5
        assert store.list(Filter(limit=10))
        assert store.kept_signals(0, 10)
        assert store.credentials()
        declare(store, limits={"at_once": 1, "rates": ["9/s"]})
        first, _ = several(store, "first", "second", by=claimant("r1"))
        ended(store, first)
        assert admitted_names(store, 2) == ["second"]
        assert forgotten(store, T0 + 10**9)
        assert [store.find(x.id) is None for x in (over, waiting)] == [True, False]


def test_code_from_before_works_on_a_file_with_a_column_more_in_every_table(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    migrated(str(path))
    with a_later_release(sqlite.LINEAGE, a_column_more(sqlite.LINEAGE)):
        migrated(str(path))
    assert sqlite_numbers(path) == (sqlite.SCHEMA_VERSION + 1, sqlite.LINEAGE.fresh().least)
    _works(str(path))


def test_code_from_before_works_on_a_schema_with_a_column_more_in_every_table() -> None:
    where = new_schema()
    migrated(where)
    with a_later_release(postgres.LINEAGE, a_column_more(postgres.LINEAGE)):
        migrated(where)
    assert postgres_numbers(where) == (postgres.SCHEMA_VERSION + 1, postgres.LINEAGE.fresh().least)
    _works(where)


# --- SQLite ------------------------------------------------------------------------------------------------------------------


def test_steps_are_applied_in_order_and_the_halves_for_after_the_deployment_come_last(old: Path) -> None:
    newest = sqlite.LINEAGE.newest
    later = [
        step(newest + 1, "CREATE TABLE a (x INTEGER);\n"),
        step(newest + 1, "DROP TABLE b;\n", after=True),
        step(newest + 2, "CREATE TABLE b (x INTEGER);\nCREATE INDEX c ON a (x);\n"),
    ]
    with a_later_release(sqlite.LINEAGE, *later):
        migrated(str(old))
    shape = sqlite_shape(old)["sql"]
    assert {("table", "a"), ("index", "c")} <= shape.keys()
    assert ("table", "b") not in shape
    assert sqlite_numbers(old) == (newest + 2, newest + 1)
    with pytest.raises(StoreUnsuitable, match="Install the Holdfast that migrated it"):
        SqliteStore(str(old), "here")


def test_work_of_the_schema_before_queues_is_found_by_function_and_queues_work_beside_it(old: Path, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as connection:
        for half in sqlite.LINEAGE.steps():
            for statement in half.statements() if half.number < BEFORE_QUEUES + 1 else ():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {BEFORE_QUEUES}")
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('least', ?)", (BEFORE_QUEUES,))
        ready = connection.execute("SELECT id, function, version FROM executions WHERE state = 'ready' AND deaths < 2").fetchall()
        running = connection.execute("SELECT count(*) FROM executions WHERE status = 'RUNNING'").fetchone()[0]
    migrated(str(old))
    migrated(str(tmp_path / "fresh.db"))
    assert sqlite_shape(old) == sqlite_shape(tmp_path / "fresh.db")
    with contextlib.closing(SqliteStore(str(old), "r1")) as store:
        store.join("r1", LEASE)
        for execution, function, version in ready:
            assert execution in store.claimable([Target(function, version)], (), T0 + 10**9, 10)
        assert len(store.list(Filter(statuses=(ExecutionStatus.RUNNING,)))) == running > 0
        assert {(header.place, header.parked) for header in store.list(Filter())} == {(None, False)}
        several(store, "enqueued")
        assert admitted_names(store, 2) == ["enqueued"]
    assert open_maintenance(str(old), "operator").check(quick=False).findings == []


def test_a_copy_of_the_file_as_it_was_is_kept_beside_it_for_its_owner_alone(old: Path) -> None:
    before = sqlite_shape(old)
    mask = os.umask(0)
    try:
        migrated(str(old))
    finally:
        os.umask(mask)
    copy = old.with_name(f"old.db.before-{sqlite.SCHEMA_VERSION}")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sqlite_shape(copy) == before
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM executions").fetchone() == (10,)


def test_what_lies_in_the_write_ahead_log_is_in_the_copy_too(old: Path) -> None:
    with contextlib.closing(sqlite3.connect(old)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE subscribers SET cursor = 3")
        writer.commit()
        migrated(str(old))
    with contextlib.closing(sqlite3.connect(f"{old}.before-{sqlite.SCHEMA_VERSION}")) as connection:
        assert connection.execute("SELECT cursor FROM subscribers").fetchone() == (3,)


def test_an_older_copy_is_not_written_over(old: Path) -> None:
    kept = old.with_name(f"old.db.before-{sqlite.SCHEMA_VERSION}")
    kept.write_text("precious")
    migrated(str(old))
    assert kept.read_text() == "precious"
    assert sqlite_numbers(kept.with_name(f"{kept.name}.2")) == (6, 6)


def test_a_new_file_and_one_of_our_own_schema_leave_no_copy(tmp_path: Path) -> None:
    for _ in range(2):
        migrated(str(tmp_path / "s.db"))
    assert [path.name for path in tmp_path.iterdir() if "before" in path.name] == []


def test_a_file_that_another_process_has_open_is_not_migrated_and_that_process_is_named(old: Path) -> None:
    before = old.read_bytes()
    holder = Presence(Path(f"{old}-holdfast"), "r-of-schema-6")
    try:
        with pytest.raises(StoreInUse) as refused:
            SqliteStore(str(old), "here")
    finally:
        holder.close()
    assert f"r-of-schema-6 (process {os.getpid()})" in str(refused.value)
    assert "Stop every process" in str(refused.value)
    assert old.read_bytes() == before
    assert [path.name for path in old.parent.iterdir() if "before" in path.name] == []
    migrated(str(old))


def test_a_process_that_is_gone_does_not_keep_a_file_from_being_migrated(old: Path) -> None:
    folder = Path(f"{old}-holdfast")
    folder.mkdir()
    (folder / "dead.alive").touch()
    migrated(str(old))
    assert sqlite_numbers(old).version == sqlite.SCHEMA_VERSION


def test_two_processes_that_open_an_old_file_at_once_migrate_it_once(old: Path) -> None:
    processes = [child("make", old, member) for member in ("a", "b")]
    for process in processes:
        assert heard(process) == "ready"
    for process in processes:
        told(process)
    sealed = {heard(process) for process in processes}
    assert [process.wait() for process in processes] == [0, 0]
    assert len(sealed) == 1
    assert "" not in sealed
    assert [path.name for path in old.parent.iterdir() if "before" in path.name] == [f"old.db.before-{sqlite.SCHEMA_VERSION}"]
    for process in processes:
        process.communicate()


def test_a_step_that_fails_leaves_the_old_file_and_no_copy(old: Path) -> None:
    before = sqlite_shape(old)
    wrong = step(sqlite.LINEAGE.newest + 1, "CREATE TABLE fine (x INTEGER);\nCREATE TABLE meta (x INTEGER);\n")
    with a_later_release(sqlite.LINEAGE, wrong), pytest.raises(StoreBroken, match="meta already exists"):
        SqliteStore(str(old), "here")
    assert sqlite_shape(old) == before
    assert [path.name for path in old.parent.iterdir() if "before" in path.name] == []


def test_a_kill_at_any_moment_leaves_the_old_store_or_the_new_one(old: Path, tmp_path: Path) -> None:
    before, folder = sqlite_shape(old), tmp_path / "killed"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.store.dying", str(old), str(folder)]
    points = int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    migrated(str(tmp_path / "fresh.db"))
    after = sqlite_shape(tmp_path / "fresh.db")
    kept = []
    for point in range(1, points + 1):
        path = folder / str(point) / "store.db"
        left = sqlite_shape(path)
        assert left in (before, after), f"killed at point {point} of {points}"
        kept.append(left == after)
        migrated(str(path))
        assert sqlite_shape(path) == after
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) FROM executions").fetchone() == (10,)
    assert kept == sorted(kept), "from one moment on it is the new one"
    assert kept.index(True) > 20
    assert list(folder.rglob("*.part")) == [], "who comes next removes what was half copied"
    assert all(sqlite_numbers(copy) == (6, 6) for copy in folder.rglob("*.before-*"))


# --- Postgres ----------------------------------------------------------------------------------------------------------------


def refusal(where: str, **more: Any) -> HoldfastError:
    with pytest.raises(HoldfastError) as refused:
        PostgresStore(where, "here", **more)
    return refused.value


def test_an_old_schema_is_refused_with_the_command_that_migrates_it() -> None:
    where = old_postgres()
    refused = refusal(where)
    assert (type(refused), refused.code) == (StoreNotMigrated, "store_not_migrated")
    assert "`holdfast db migrate`" in str(refused)
    assert postgres_numbers(where) == (4, 4)


async def test_an_engine_may_migrate_when_it_opens() -> None:
    where = old_postgres()
    async with holdfast.open(where, migrate=True, settings=Settings(tune=False)):
        pass
    assert postgres_numbers(where).version == postgres.SCHEMA_VERSION


def test_of_several_processes_that_migrate_at_once_one_does() -> None:
    where = old_postgres()
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda n: open_maintenance(where, f"m{n}").migrate(after=False), range(4)))
    assert sorted(len(each.steps) for each in done) == [0, 0, 0, postgres.SCHEMA_VERSION - 4]
    assert {each.now for each in done} == {postgres_numbers(where)}


def test_the_oldest_schema_is_not_migrated_while_a_runner_has_a_lease() -> None:
    where = old_postgres()
    with database() as rows:
        rows.execute(f"UPDATE {schema_of(where)}.runners SET lease_until = {SystemClock().now() + 600_000}".encode())
        refused = refusal(where, migrate=True)
        assert (type(refused), refused.code) == (StoreInUse, "store_in_use")
        assert re.search(
            r"a runner of code of schema version 4 works on it: 019b76da-\S+ \(its lease ends in (600|599) s\)\. Stop", str(refused)
        )
        assert postgres_numbers(where) == (4, 4)
        rows.execute(f"UPDATE {schema_of(where)}.runners SET lease_until = {SystemClock().now() - 1}".encode())
    migrated(where)


def test_a_half_for_after_the_deployment_waits_until_runners_from_before_are_gone() -> None:
    where, newest, least = new_schema(), postgres.LINEAGE.newest, postgres.LINEAGE.fresh().least
    with contextlib.closing(PostgresStore(where, "before")) as before, contextlib.closing(PostgresStore(where, "late")) as late:
        before.join("before", SystemClock().now() + 600_000)
        half = step(newest + 1, "ALTER TABLE signals ADD COLUMN extra TEXT;\n")
        with a_later_release(postgres.LINEAGE, half, step(newest + 1, "DROP TABLE expired;\n", after=True)):
            migrated(where)
            assert postgres_numbers(where) == (newest + 1, least)
            closed(before, "goes on")
            with pytest.raises(StoreInUse, match=f"code older than schema version {newest + 1} works on it: before"):
                apply_after(where)
            before.leave("before")
            done = apply_after(where)
            assert ([each.number for each in done.steps], done.waiting) == ([newest + 1], [])
        assert postgres_numbers(where) == (newest + 1, newest + 1)
        with pytest.raises(StoreUnsuitable, match="was migrated meanwhile"):
            late.join("late", LEASE)
        assert isinstance(refusal(where), StoreUnsuitable)


@pytest.mark.parametrize("version", sorted(POSTGRES))
def test_the_halves_for_after_the_deployment_are_refused_while_the_others_are_not_applied(version: int) -> None:
    where = old_postgres(version)
    before = postgres_numbers(where)
    with pytest.raises(StoreNotMigrated, match="Run `holdfast db migrate` without --after first"):
        apply_after(where)
    assert postgres_numbers(where) == before
    migrated(where)
    assert apply_after(where).waiting == []


def test_a_name_is_started_again_only_when_no_code_from_before_can_find_two_executions_of_it() -> None:
    where = old_postgres()
    migrated(where)
    with contextlib.closing(PostgresStore(where, "mine")) as store:
        old = written(store, Stop(started(store, "a").id))
        asked = msgspec.structs.replace(wanted("a", id=id_at(T0 + 1000)), again=True)
        (refused,) = answers(store, asked)
        assert isinstance(refused, StoreNotMigrated)
        assert "holdfast db migrate --after" in str(refused)
        assert answers(store, wanted("a")) == [Started(old, False)]
        apply_after(where)
        (answer,) = answers(store, asked)
        assert isinstance(answer, Started)
        assert answer.created


def test_a_pipeline_is_started_only_when_no_code_from_before_can_leave_its_graph_behind() -> None:
    where = old_postgres()
    migrated(where)
    with contextlib.closing(PostgresStore(where, "mine")) as store, contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
        graph = graph_text("{}")
        asked = msgspec.structs.replace(wanted("a"), graph=graph)
        copy = elsewhere.snapshot(written(elsewhere, asked).id)
        assert copy is not None
        refused, beside = answers(store, asked, wanted("b"))
        assert isinstance(refused, StoreNotMigrated)
        assert "A pipeline can be started only when `holdfast db migrate --after` was run" in str(refused)
        assert isinstance(beside, Started)
        with pytest.raises(StoreNotMigrated, match="A copy of a pipeline's run can be kept only when"):
            store.adopt(copy)
        assert store.graph(graph.id) is None
        apply_after(where)
        (answer,) = answers(store, asked)
        assert isinstance(answer, Started)
        assert store.graph(graph.id) == graph.text


def test_a_step_that_fails_leaves_the_old_schema() -> None:
    where = old_postgres()
    wrong = step(postgres.LINEAGE.newest + 1, "CREATE TABLE fine (x BIGINT);\nCREATE TABLE meta (x BIGINT);\n")
    with a_later_release(postgres.LINEAGE, wrong):
        assert isinstance(refusal(where, migrate=True), StoreBroken)
    assert postgres_numbers(where) == (4, 4)
    with database() as rows, pytest.raises(psycopg.errors.UndefinedTable):
        rows.execute(f"SELECT 1 FROM {schema_of(where)}.fine".encode())
