"""`holdfast executions export`, `holdfast executions import` and `holdfast replay`, between stores and processes."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.surface.cli_program import Program


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


def exported(holdfast: Program, execution: str, *options: str) -> dict[str, Any]:
    ended = holdfast("executions", "export", execution, *options)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def greeted(holdfast: Program) -> None:
    assert holdfast("run", "functions.py:greet", "--name", "a", "--input", '{"who": "you"}').returncode == 0


def waiting(holdfast: Program, name: str = "a") -> None:
    """An approval that waits, without a runner."""
    process = holdfast.begin("run", "functions.py:approve", "--name", name)
    try:
        holdfast.waiting(f"approve/{name}")
    finally:
        process.kill()
        process.communicate()


def test_an_export_goes_to_stdout_or_to_a_file_for_its_owner_alone(holdfast: Program) -> None:
    greeted(holdfast)
    document = exported(holdfast, "greet/a")
    ended = holdfast("executions", "export", "a", "-o", "a.json")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "exported: greet/a is in a.json\n")
    kept = json.loads((holdfast.folder / "a.json").read_text())
    assert kept | {"exported_at": 0} == document | {"exported_at": 0}
    assert stat.S_IMODE(os.stat(holdfast.folder / "a.json").st_mode) == 0o600
    assert document["format"] == "holdfast-execution/1"
    lines = [json.loads(line) for line in holdfast("executions", "history", "a", "--json").stdout.splitlines()]
    assert document["history"]["Events"] == lines
    assert "hello you" in json.dumps(document)
    assert "hello you" not in json.dumps(exported(holdfast, "a", "--without-data"))


def test_a_closed_execution_is_imported_into_another_store_once(holdfast: Program) -> None:
    greeted(holdfast)
    holdfast("executions", "export", "a", "-o", "a.json")
    first = holdfast("executions", "import", "a.json", "--store", "other.db")
    assert (first.returncode, first.stderr) == (0, "imported: greet/a\n")
    second = holdfast("executions", "import", "a.json", "--store", "other.db")
    assert (second.returncode, second.stderr) == (0, "was there already: greet/a\n")
    assert holdfast.document("executions", "import", "a.json", "--store", "other.db")["state"] == "closed"
    here, there = (holdfast.document("executions", "show", "a", "--store", store) for store in ("holdfast.db", "other.db"))
    assert here == there
    again = json.loads(holdfast("run", "functions.py:greet", "--name", "a", "--store", "other.db").stdout)
    assert again == {"greeting": "hello you"}, "a start by name finds it"


def test_an_open_execution_is_imported_as_a_copy_that_says_so(holdfast: Program) -> None:
    waiting(holdfast)
    holdfast("executions", "export", "a", "-o", "a.json")
    assert holdfast("executions", "import", "a.json", "--store", "other.db").returncode == 0
    page = holdfast("executions", "show", "a", "--store", "other.db").stdout
    assert "RUNNING (imported)" in page
    assert "It is an imported copy, to be looked at: nothing runs it here." in page
    assert "answer it with" not in page
    assert [line.split()[3] for line in holdfast("executions", "list", "--store", "other.db").stdout.splitlines()[1:]] == ["imported"]
    followed = holdfast("run", "functions.py:approve", "--name", "a", "--store", "other.db")
    assert (followed.returncode, "will not end here" in followed.stderr) == (2, True)
    stopped = holdfast("executions", "stop", "a", "--store", "other.db")
    assert (stopped.returncode, "nothing to stop" in stopped.stderr) == (2, True)


def test_an_import_that_is_refused_leaves_nothing_behind(holdfast: Program) -> None:
    greeted(holdfast)
    holdfast("executions", "export", "a", "-o", "a.json")
    document = json.loads((holdfast.folder / "a.json").read_text())
    document["events"][1]["operation_id"] = "unknown"
    (holdfast.folder / "bad.json").write_text(json.dumps(document))
    for name, told in (
        ("bad.json", "bad.json: `events[1].operation_id`: no such operation."),
        ("functions.py", "functions.py is not JSON, or was cut off"),
        ("none.json", "none.json: could not be read: No such file or directory."),
    ):
        ended = holdfast("executions", "import", name, "--store", "other.db")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert f"error[export_invalid]: {told}" in ended.stderr
    assert list(holdfast.folder.glob("other.db*")) == []
    holdfast("run", "functions.py:greet", "--detach", "--name", "a", "--store", "other.db")
    ended = holdfast("executions", "import", "a.json", "--store", "other.db")
    assert (ended.returncode, "error[execution_already_started]: There is another execution greet/a" in ended.stderr) == (2, True)


def test_an_export_that_cannot_be_written_is_told(holdfast: Program) -> None:
    greeted(holdfast)
    ended = holdfast("executions", "export", "a", "-o", "nowhere/a.json")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error[invalid_parameter]: nowhere/a.json could not be written: No such file or directory.\n"


def test_a_replay_tells_whether_todays_code_matches(holdfast: Program) -> None:
    greeted(holdfast)
    holdfast("executions", "export", "a", "-o", "a.json")
    waiting(holdfast, "b")
    holdfast("executions", "export", "b", "-o", "b.json")

    for function in ("greet", "greet_async"):
        ended = holdfast("replay", "a.json", f"functions.py:{function}")
        assert (ended.returncode, ended.stdout) == (
            0,
            'matches: The code follows the records, and then returns {"greeting": "hello you"}.\n',
        )
    told = holdfast.document("replay", "b.json", "functions.py:approve")
    assert (told["matches"], told["status"], told["waits"]) == (True, "PENDING", ["Callback 'approval'"])

    mismatch = holdfast("replay", "a.json", "functions.py:two_steps")
    assert (mismatch.returncode, mismatch.stdout) == (1, "")
    assert "error[non_deterministic_execution_error]: The code no longer matches this execution's history." in mismatch.stderr
    assert "Recorded here: Step 'compose'. The code asks for: Step 'first', at " in mismatch.stderr

    other = holdfast("replay", "a.json", "functions.py:fail")
    assert other.returncode == 1
    assert other.stdout.startswith("does not match: The code fails with LookupError: no such order without the recorded Step 'compose'.")
    assert holdfast.log == [], "no body has run"
    assert "hello from the function" in holdfast("replay", "a.json", "functions.py:greet").stderr


@pytest.mark.parametrize(
    "words, code",
    [
        (["none.json", "functions.py:greet"], "export_invalid"),
        (["functions.py", "functions.py:greet"], "export_invalid"),
        (["bare.json", "functions.py:greet"], "export_invalid"),
        (["a.json", "functions.py:unknown"], "function_not_found"),
        (["a.json", "none.py:greet"], "function_not_loadable"),
    ],
)
def test_a_replay_that_cannot_begin_is_exit_code_two(holdfast: Program, words: list[str], code: str) -> None:
    greeted(holdfast)
    holdfast("executions", "export", "a", "-o", "a.json")
    holdfast("executions", "export", "a", "-o", "bare.json", "--without-data")
    ended = holdfast("replay", *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"error[{code}]: " in ended.stderr
    assert "Traceback" not in ended.stderr
