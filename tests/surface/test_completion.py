"""Completion in the shell: commands and options, and values of the store; in bounded time, silent on trouble, and it changes nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.clock import monotonic
from tests.store.released import old_sqlite
from tests.surface.cli_program import Program, until


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def filled(holdfast: Program) -> Program:
    """A store with functions, queues and a schedule."""
    (holdfast.folder / "lines").write_text('{"who": "you"}\n')
    assert holdfast("run", "functions.py:greet", "--input", '{"who": "you"}').returncode == 0
    assert holdfast("queues", "push", "mail", "functions.py:greet", "@lines").returncode == 0
    assert holdfast("schedules", "add", "nightly", "greet", "--every", "1d").returncode == 0
    return holdfast


def completed(program: Program, line: str) -> list[str]:
    """What bash gets for a line."""
    words = line.split(" ")
    program.environment |= {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    ended = program()
    assert ended.stderr == ""
    return ended.stdout.split()


LINES = {
    "holdfast ru": ["run", "runner", "runs"],
    "holdfast queues pus": ["push"],
    "holdfast executions list --function ": ["greet"],
    "holdfast executions list --function x": [],
    "holdfast executions list --queue ": ["mail"],
    "holdfast queues show m": ["mail"],
    "holdfast schedules show ": ["nightly"],
    "holdfast schedules pause --store gone.db ": [],
}


def test_commands_and_values_of_the_store_complete(filled: Program) -> None:
    """A busy machine may take longer than completion waits, so that it is asked again, as a user does."""
    for line, values in LINES.items():
        until(lambda line=line, values=values: [name for name in completed(filled, line) if name != "default"] == values)  # type: ignore[misc]
    assert not (filled.folder / "gone.db").exists()


def test_a_store_that_is_missing_broken_or_older_completes_nothing_and_stays_as_it_is(holdfast: Program) -> None:
    store = holdfast.folder / "holdfast.db"
    assert completed(holdfast, "holdfast queues show ") == []
    assert not store.exists()
    store.write_text("a letter to the editor, of more than sixteen characters")
    assert completed(holdfast, "holdfast queues show ") == []
    store.unlink()
    old_sqlite(holdfast.folder).rename(store)
    assert completed(holdfast, "holdfast executions list --function ") == []
    with closing(sqlite3.connect(store)) as rows:
        assert rows.execute("PRAGMA user_version").fetchone() == (6,)


def test_a_store_that_does_not_answer_is_not_waited_for(filled: Program) -> None:
    with closing(sqlite3.connect(filled.folder / "holdfast.db", isolation_level=None)) as rows:
        rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        rows.execute("BEGIN EXCLUSIVE")
        began = monotonic()
        assert completed(filled, "holdfast queues show ") == []
        assert monotonic() - began < 8, "SQLite alone waits for ten seconds"
        rows.execute("ROLLBACK")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_installed_script_completes_in_a_real_bash(filled: Program, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**filled.environment, "HOME": str(home), "PATH": path}
    command = ["bash", "-c", "holdfast --install-completion; exit $?"]  # it looks for the shell among the processes above it
    installed = subprocess.run(command, cwd=filled.folder, env=environment, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    line = 'COMP_WORDS=(holdfast queues show ""); COMP_CWORD=3'
    asks = f'source ~/.bashrc; {line}; _holdfast_completion holdfast; printf "%s\\n" "${{COMPREPLY[@]}}"'

    def answered() -> bool:
        ran = subprocess.run(["bash", "-c", asks], cwd=filled.folder, env=environment, capture_output=True, text=True, check=False)
        return ran.stdout == "mail\n"

    until(answered)
