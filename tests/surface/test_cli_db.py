"""`holdfast db`: what the operator reads, and what exit codes say."""

import json
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store.sqlite.schema_migrations import LINEAGE, SCHEMA_VERSION
from holdfast.store.sqlite.store import SqliteStore
from tests.postgres import new_schema
from tests.store.released import old_postgres, old_sqlite
from tests.surface.cli_program import Program

LEAST = LINEAGE.fresh().least
NEWEST = f"schema version {SCHEMA_VERSION}, for code of version {LEAST} or newer"


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    """A program beside a store of the oldest schema."""
    old_sqlite(tmp_path).rename(tmp_path / "holdfast.db")
    return Program(tmp_path)


def test_a_store_is_checked_copied_migrated_and_put_back(holdfast: Program) -> None:
    old = holdfast("db", "check")
    assert (old.returncode, old.stdout) == (0, "")
    assert old.stderr == "holdfast.db is of schema version 6, of an older release: it must be migrated; sound\n"
    assert holdfast("db", "backup", "copy.db").stderr == "holdfast.db is copied to copy.db\n"
    assert stat.S_IMODE((holdfast.folder / "copy.db").stat().st_mode) == 0o600
    migrated = holdfast("db", "migrate")
    assert migrated.returncode == 0
    told = migrated.stderr.splitlines()
    assert told[0].startswith("holdfast.db is migrated from schema version 6 (007 code of runners")
    assert told[1] == "applied 007 code of runners"
    assert told[-1] == f"holdfast.db has {NEWEST}"
    again = json.loads(holdfast("db", "migrate", "--after", "--json").stdout)
    assert again == {"version": SCHEMA_VERSION, "least": LEAST, "was": SCHEMA_VERSION, "steps": [], "waiting": []}
    back = holdfast("db", "restore", "copy.db")
    assert back.stderr == "holdfast.db has the content of copy.db now; the old store is kept as holdfast.db.before-restore\n"
    assert json.loads(holdfast("db", "check", "--json").stdout) == {"version": 6, "least": 6, "behind": True, "findings": []}


def test_a_restore_over_a_file_of_another_kind_says_what_it_has_moved(holdfast: Program) -> None:
    assert holdfast("db", "backup", "copy.db").returncode == 0
    (holdfast.folder / "notes.txt").write_text("precious")
    (holdfast.folder / "notes.txt").chmod(0o600)
    back = holdfast("db", "restore", "copy.db", "--store", "notes.txt")
    assert back.stderr == (
        "notes.txt has the content of copy.db now; the old file, which is not a SQLite database, is kept as notes.txt.before-restore\n"
    )
    assert (holdfast.folder / "notes.txt.before-restore").read_text() == "precious"


def test_findings_are_lines_on_stdout_and_exit_code_three(holdfast: Program) -> None:
    with closing(sqlite3.connect(holdfast.folder / "holdfast.db")) as rows:
        rows.execute("UPDATE executions SET operations = 7 WHERE name = 'bill-1'")
        rows.commit()
    ended = holdfast("db", "check", "--quick")
    assert ended.returncode == 3
    assert re.fullmatch(r"operations_count: 019b76da-\S+: the header counts 7 operations, there are 2\n", ended.stdout)
    assert ended.stderr.endswith("it must be migrated; 1 findings\n")
    (finding,) = json.loads(holdfast("db", "check", "--json").stdout)["findings"]
    assert finding["name"] == "operations_count"


def test_the_size_is_a_table_and_what_retention_removes(holdfast: Program) -> None:
    ended = holdfast("db", "size")
    assert re.search(r"^events +52 +[\d,]+$", ended.stdout, re.M)
    assert "2 executions (85 bytes of payload) are past their retention: runners remove them" in ended.stderr
    assert json.loads(holdfast("db", "size", "--json").stdout)["over"] == {"executions": 2, "bytes": 85}


def test_a_copy_over_a_file_and_a_return_under_a_runner_are_mistakes_of_the_caller(holdfast: Program) -> None:
    (holdfast.folder / "copy.db").write_text("precious")
    ended = holdfast("db", "backup", "copy.db")
    assert (ended.returncode, ended.stderr) == (
        2,
        "error[invalid_parameter]: There is already a file copy.db. Name another, or use --force to replace it.\n",
    )
    assert holdfast("db", "backup", "copy.db", "--force").returncode == 0
    with closing(SqliteStore(str(holdfast.folder / "holdfast.db"), "runner-1")):
        ended = holdfast("db", "restore", "copy.db")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error[store_in_use]: holdfast.db is to be replaced, but it is open elsewhere: runner-1 (process ")


def test_a_schema_is_migrated_by_the_command_that_the_refusal_names(tmp_path: Path) -> None:
    holdfast, where = Program(tmp_path), old_postgres()
    refused = holdfast("executions", "list", "--store", where)
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (2, "error[store_not_migrated]")
    assert "Run `holdfast db migrate` with this store" in refused.stderr
    migrated = holdfast("db", "migrate", "--store", where)
    assert (migrated.returncode, "applied 005 code of runners" in migrated.stderr) == (0, True)
    assert holdfast("executions", "list", "--store", where).returncode == 0
    dump = holdfast("db", "backup", "copy.dump", "--store", where)
    assert (dump.returncode, "pg_dump --format=custom" in dump.stderr) == (2, True)
    assert holdfast("db", "size", "--store", new_schema()).returncode == 2
