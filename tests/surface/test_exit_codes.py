"""Exit codes: the page is the table, and each code is what a real command ends with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.exit_codes import MEANINGS, ExitCode
from holdfast.contract.codes import CODES, ENDINGS
from tests.drawings import exit_codes as drawing
from tests.surface import served_workers
from tests.surface.cli_program import PATIENCE_SECONDS, Program

BUG = """
import sys
from holdfast.cli import main, trust

def broken(self):
    raise RuntimeError("an author forgot this")

trust.TrustBook.folders = broken
sys.argv = ["holdfast", "trust", "--list"]
main()
"""


def _of_a_worker(holdfast: Program, do: str) -> int:
    served_workers.written(holdfast.folder)
    ended = holdfast("run", "worker.py:echo", "--trust", "--input", json.dumps({"say": "x", "do": do}))
    return ended.returncode


def _of_a_bug(holdfast: Program) -> int:
    ended = subprocess.run([sys.executable, "-c", BUG], cwd=holdfast.folder, capture_output=True, text=True, check=False)
    assert "error[bug]" in ended.stderr
    return ended.returncode


def _of_an_interruption(holdfast: Program) -> int:
    running = holdfast.begin("run", "functions.py:approve", "--name", "waits")
    holdfast.waiting("waits")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_SECONDS)
    return running.wait(PATIENCE_SECONDS)


def _of_a_store_that_is_none(holdfast: Program) -> int:
    (holdfast.folder / "holdfast.db").write_text("a letter to the editor, of more than sixteen characters")
    return holdfast("executions", "list").returncode


REAL: dict[ExitCode, Callable[[Program], int]] = {
    ExitCode.OK: lambda holdfast: holdfast("--version").returncode,
    ExitCode.UNSUCCESSFUL: lambda holdfast: holdfast("run", "functions.py:fail").returncode,
    ExitCode.MISTAKE: lambda holdfast: holdfast("run", "nothing.py:at_all").returncode,
    ExitCode.TROUBLE: _of_a_store_that_is_none,
    ExitCode.NEEDS_HUMAN: lambda holdfast: _of_a_worker(holdfast, "human"),
    ExitCode.INVALID_OUTPUT: lambda holdfast: _of_a_worker(holdfast, "wrong"),
    ExitCode.BUG: _of_a_bug,
    ExitCode.RETRYABLE: lambda holdfast: _of_a_worker(holdfast, "crash"),
    ExitCode.INTERRUPTED: _of_an_interruption,
}


@pytest.mark.parametrize("code", list(ExitCode), ids=lambda code: code.name.lower())
def test_a_real_command_ends_with_each_code(tmp_path: Path, code: ExitCode) -> None:
    assert REAL[code](Program(tmp_path)) == code


def test_the_page_of_exit_codes_is_up_to_date(root: Path) -> None:
    page = (root / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert page == drawing.page(), "python -m tests.drawings.exit_codes > docs/reference/exit-codes.md"


def test_the_table_explains_every_code_that_a_command_or_a_worker_can_end_with() -> None:
    assert list(MEANINGS) == list(ExitCode)
    assert {ending.exit for ending in ENDINGS.values()} | {meaning.exit for meaning in CODES.values()} <= set(ExitCode)


def test_no_command_has_an_exit_code_of_its_own(root: Path) -> None:
    allowed = ("typer.Exit(ExitCode.", "typer.Exit(command.run(", "typer.Exit(run_worker(")
    own = [
        f"{path.name}: {line.strip()}"
        for path in sorted((root / "src/holdfast/cli").glob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "typer.Exit(" in line and not any(form in line for form in allowed)
    ]
    assert own == []
