"""A command that works for longer than a second says so on stderr: a spinner in a terminal, else one line."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.cli import terminal
from holdfast.model.clock import monotonic
from holdfast.store.sqlite.store import SqliteStore
from tests.surface.cli_program import PATIENCE_SECONDS, PROGRAM, Program

LONG = {
    "db.py": 5,
    "executions.py": 4,
    "queues.py": 1,
    "queue_push.py": 1,
    "keys.py": 1,
    "schedules.py": 1,
    "cost.py": 1,
    "replay.py": 2,
    "run_restarts.py": 2,
    "approvals.py": 1,
    "check_pipelines.py": 1,
    "doctor.py": 1,
}
"""How many commands of each file may take long: on a large store, with many items, or because a sandbox starts."""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """A store that answers only when the lock is gone."""
    with closing(sqlite3.connect(store, isolation_level=None)) as rows:
        rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        rows.execute("BEGIN EXCLUSIVE")
        yield
        rows.execute("ROLLBACK")


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    SqliteStore(str(tmp_path / "holdfast.db"), "test").close()
    return Program(tmp_path)


def test_a_slow_command_says_one_line_where_stderr_is_no_terminal(holdfast: Program) -> None:
    with locked(holdfast.folder / "holdfast.db"):
        checking = holdfast.begin("db", "check")
        assert checking.stderr is not None
        first = checking.stderr.readline()
    assert first == "checking holdfast.db …\n"
    _, said = checking.communicate(timeout=PATIENCE_SECONDS)
    assert said.endswith("; sound\n")
    assert checking.returncode == 0


@pytest.mark.parametrize("from_stdin", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_push_shows_a_progress_bar_in_a_terminal_and_removes_it_at_the_end(holdfast: Program, from_stdin: bool) -> None:
    (holdfast.folder / "mail.py").write_text(
        "from holdfast import durable_execution\n\n\n@durable_execution\ndef send(event, context): ...\n"
    )
    lines = b"".join(b'{"n": %d}\n' % number for number in range(2500))
    (holdfast.folder / "inputs.jsonl").write_bytes(lines)
    ours, theirs = pty.openpty()
    environment = {**holdfast.environment, "TERM": "xterm", "COLUMNS": "120"}
    words = [*PROGRAM, "queues", "push", "emails", "mail.py:send", "-" if from_stdin else "@inputs.jsonl"]
    with (holdfast.folder / "inputs.jsonl").open("rb") as inputs:
        pushing = subprocess.Popen(words, cwd=holdfast.folder, env=environment, stdin=inputs, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = _read_until(ours, "pushed 2,500")
    assert pushing.wait(PATIENCE_SECONDS) == 0
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    counted = r"[━╸╺ ]+ +{}/{} lines" if from_stdin else r"[━╸╺ ]+ +{}/{} bytes"
    whole = "[?]" if from_stdin else str(len(lines))
    assert re.search("pushing " + counted.format(2500 if from_stdin else len(lines), whole), plain), plain[-2000:]
    assert "\x1b[?25l" in shown
    assert shown.rindex("\x1b[2K") < shown.index("pushed 2,500"), "the bar is gone"


def test_a_quick_command_says_nothing_of_it(holdfast: Program) -> None:
    assert "checking" not in holdfast("db", "check").stderr


def test_a_terminal_shows_a_spinner(holdfast: Program) -> None:
    ours, theirs = pty.openpty()
    environment = {**holdfast.environment, "TERM": "xterm"}
    with locked(holdfast.folder / "holdfast.db"):
        checking = subprocess.Popen([*PROGRAM, "db", "check"], cwd=holdfast.folder, env=environment, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = _read_until(ours, "checking holdfast.db …")
    shown += _read_until(ours, "sound")
    assert checking.wait(PATIENCE_SECONDS) == 0
    os.close(ours)
    assert shown.rstrip().endswith("sound")


def _read_until(descriptor: int, text: str) -> str:
    seen, deadline = "", monotonic() + PATIENCE_SECONDS
    while text not in seen and monotonic() < deadline:
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 4096).decode(errors="replace")
    assert text in seen, seen
    return seen


def test_what_is_only_for_a_terminal_prints_nothing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, told = io.StringIO(), threading.Event()
    monkeypatch.setattr(terminal, "_LONG_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", heard)

    def say(line: str) -> None:
        heard.write(line)
        told.set()

    monkeypatch.setattr(terminal, "say", say)
    with terminal.working("building", only_in_terminal=True):
        pass
    assert heard.getvalue() == ""
    with terminal.working("copying"):
        assert told.wait(PATIENCE_SECONDS)
    assert heard.getvalue() == "copying …"


def test_every_command_that_may_take_long_shows_that_it_works(root: Path) -> None:
    found = {name: len(re.findall(r"\bworking\(", (root / "src/holdfast/cli" / name).read_text(encoding="utf-8"))) for name in LONG}
    assert found == LONG
