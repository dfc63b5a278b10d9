"""Mistakes at the command line: a clear line, a stable code, the right exit code, no traceback, nothing left behind."""

import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.cli.main import program
from tests.surface.cli_program import PROGRAM, Program


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


FILES: dict[str, str | bytes] = {
    "broken.py": "import functions\n\nprice = 1 / 0\n",
    "syntax.py": "def f(:\n",
    "leaves.py": "import sys\nsys.exit(4)\n",
    "lacks.py": "import no_such_package_anywhere\n",
    "empty.py": "x = 1\n",
    "bad.json": '{"who": \n  you}',
    "latin.json": b"\xe9",
}


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["run", "none.py:f"], "function_not_loadable", "There is no file none.py"),
        (["run", "."], "function_not_loadable", ". is a folder. Name a file in it."),
        (["run", "web-scrap-worker"], "function_not_loadable", "no ready worker of that name. Did you mean `web-scrape-worker`?"),
        (["run", "no.module:f"], "function_not_loadable", "There is no module 'no.module'"),
        (["run", ":f"], "invalid_parameter", "names no function"),
        (["run", "functions.py:"], "invalid_parameter", "names no function"),
        (["run", "functions.py"], "function_not_found", "does not say which function to run. Durable functions there: approve,"),
        (["run", "functions.py:unknown"], "function_not_found", "There is no 'unknown' in functions.py. Durable functions there: approve,"),
        (["run", "functions.py:ordinary"], "function_not_found", "is not a durable function. Decorate it"),
        (["run", "empty.py"], "function_not_found", "No durable function was found there."),
        (["run", "broken.py:f"], "function_not_loadable", "ZeroDivisionError: division by zero"),
        (["run", "broken.py:f"], "function_not_loadable", "broken.py:3: price = 1 / 0"),
        (["run", "syntax.py:f"], "function_not_loadable", "SyntaxError"),
        (["run", "leaves.py:f"], "function_not_loadable", "it ended the program (exit code 4)"),
        (["run", "lacks.py:f"], "function_not_loadable", "No module named 'no_such_package_anywhere'"),
        (["run", "lacks:f"], "function_not_loadable", "No module named 'no_such_package_anywhere'"),
        (["run", "functions.py:greet", "--input", '{"who": you}'], "payload_not_json", "--input: The payload is not JSON: Expecting value"),
        (["run", "functions.py:greet", "--input", '{"who": you}'], "payload_not_json", "line 1 column 9"),
        (["run", "functions.py:greet", "--input", "@bad.json"], "payload_not_json", "line 2 column 3"),
        (["run", "functions.py:greet", "--input", "@none.json"], "invalid_parameter", "none.json could not be read: No such file"),
        (["run", "functions.py:greet", "--input", "@latin.json"], "invalid_parameter", "not UTF-8"),
        (["run", "functions.py:greet", "--name", "a b"], "invalid_parameter", "Execution name 'a b'"),
        (["run", "functions.py:greet", "--detach", "--name", "a b"], "invalid_parameter", "Execution name 'a b'"),
        (["run", "functions.py:greet", "--store", "mysql://x"], "invalid_parameter", "No store for 'mysql' addresses"),
        (["run", "functions.py:greet", "--detach", "--store", ":memory:"], "invalid_parameter", "--detach needs a store that stays"),
    ],
)
def test_a_bad_run_is_explained_in_one_place(holdfast: Program, words: list[str], code: str, told: str) -> None:
    for name, content in FILES.items():
        (holdfast.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    ended = holdfast(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error[{code}]: ")
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "words", [["dev", "--no-open"], ["dev", "--no-open", "functions.py"], ["console"]], ids=["sample", "target", "console"]
)
@pytest.mark.parametrize("store", [":memory:", "sqlite://"])
def test_a_store_in_memory_has_no_console_so_commands_that_are_for_it_refuse_it(holdfast: Program, words: list[str], store: str) -> None:
    before = {path.name for path in holdfast.folder.iterdir()}
    ended = holdfast(*words, "--port", "0", "--store", store)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"error\[invalid_parameter\]: .+ Name a file or a database with --store\.\n", ended.stderr)
    assert {path.name for path in holdfast.folder.iterdir()} == before


@pytest.mark.parametrize(
    "words, code",
    [
        (["executions", "show", "unknown"], "execution_not_found"),
        (["executions", "show", "greet/unknown"], "execution_not_found"),
        (["executions", "history", "unknown"], "execution_not_found"),
        (["executions", "stop", "unknown"], "execution_not_found"),
        (["executions", "release", "unknown"], "execution_not_found"),
        (["executions", "release", "here"], "invalid_parameter"),
        (["executions", "show", "arn:aws:sqs:nonsense"], "invalid_parameter"),
        (["executions", "list", "--status", "sleeping"], "invalid_parameter"),
        (["callbacks", "succeed", "nonsense"], "callback_not_found"),
        (["callbacks", "fail", "bm9uc2Vuc2U="], "callback_not_found"),
        (["callbacks", "heartbeat", "nonsense"], "callback_not_found"),
        (["callbacks", "succeed", "x", "--result", "@none"], "invalid_parameter"),
    ],
)
def test_a_bad_question_is_refused_with_its_code(holdfast: Program, words: list[str], code: str) -> None:
    holdfast("run", "functions.py:greet", "--detach", "--name", "here")
    ended = holdfast(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(rf"error\[{code}\]: .+\n", ended.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ["executions", "list"],
        ["executions", "show", "a"],
        ["executions", "history", "a"],
        ["executions", "stop", "a"],
        ["executions", "release", "a"],
        ["callbacks", "succeed", "a"],
        ["callbacks", "fail", "a"],
        ["callbacks", "heartbeat", "a"],
        ["runs", "list"],
        ["runs", "cancel", "a"],
        ["approvals", "list"],
        ["limits"],
        ["replay", "a"],
    ],
)
def test_looking_for_a_store_does_not_make_one(holdfast: Program, words: list[str]) -> None:
    ended = holdfast(*words, "--store", "none.db")
    assert (ended.returncode, ended.stdout) == (2, "")
    told = "error[store_not_found]: There is no store at none.db. Check the path. The first execution that starts there makes it.\n"
    assert ended.stderr == told
    assert list(holdfast.folder.glob("none.db*")) == []


def test_a_file_that_is_no_store_is_trouble(holdfast: Program) -> None:
    (holdfast.folder / "notes.db").write_text("these are my notes, and they are longer than nothing\n" * 40)
    other = sqlite3.connect(holdfast.folder / "other.db")
    other.execute("CREATE TABLE mine (x)")
    other.close()
    for name in ("notes.db", "other.db"):
        for words in (["executions", "list"], ["run", "functions.py:greet"]):
            ended = holdfast(*words, "--store", name)
            assert (ended.returncode, ended.stdout) == (3, "")
            assert ended.stderr.startswith(f"error[store_unsuitable]: {name} is ")


ODD = """
from holdfast.durable import durable_execution
from holdfast.durable.config import StepConfig
from holdfast.durable.retries import RetryDecision

LARGE = "x" * (6 * 1024 * 1024)
NEVER = StepConfig(retry_strategy=lambda error, attempt: RetryDecision.no_retry())
VALUES = {"object": object(), "nan": float("nan"), "bytes": b"x", "large": LARGE}


@durable_execution
def returns(event, context):
    return VALUES[event]


@durable_execution
def steps(event, context):
    return context.step(lambda _: VALUES[event], config=NEVER) and None
"""


@pytest.mark.parametrize(
    "function, value, told",
    [
        ("returns", "object", "TypeError: Object of type object is not JSON serializable"),
        ("returns", "nan", "ValueError: Out of range float values are not JSON compliant"),
        ("returns", "bytes", "TypeError: Object of type bytes is not JSON serializable"),
        ("returns", "large", "Execution output payload size must be less than or equal to 6291456 bytes."),
        ("steps", "object", "Unsupported type: <class 'object'>"),
        ("steps", "large", "STEP output payload size must be less than or equal to 6291456 bytes."),
    ],
)
def test_a_function_whose_values_cannot_be_stored_fails_in_one_line(holdfast: Program, function: str, value: str, told: str) -> None:
    (holdfast.folder / "odd.py").write_text(ODD)
    ended = holdfast("run", f"odd.py:{function}", "--input", f'"{value}"', "--name", "odd")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error[")]
    assert line.startswith("error[execution_failed]: ")
    assert told in line
    assert "aws_durable_execution_sdk_python" not in line


def test_an_input_or_an_answer_that_is_too_large_is_refused_and_leaves_nothing(holdfast: Program) -> None:
    (holdfast.folder / "large.json").write_text(f'"{"x" * 6 * 1024 * 1024}"')
    for words in (["run", "functions.py:greet"], ["run", "functions.py:greet", "--detach"]):
        ended = holdfast(*words, "--input", "@large.json", "--name", "large")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "error[payload_too_large]: Execution input payload size must be less than or equal to 6291456 bytes.\n" in ended.stderr
    assert holdfast("executions", "list").stderr == "no executions\n"
    process = holdfast.begin("run", "functions.py:approve", "--name", "a")
    try:
        callback_id = holdfast.waiting("approve/a")["callback_id"]
        ended = holdfast("callbacks", "succeed", callback_id, "--result", "@large.json")
        told = "error[payload_too_large]: CALLBACK output payload size must be less than or equal to 6291456 bytes.\n"
        assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", told)
        assert holdfast("callbacks", "succeed", callback_id, "--result", "small").returncode == 0, "it is still open"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words, says",
    [
        (["runn"], "No such command 'runn'. Did you mean 'run'"),
        (["run"], "Missing argument 'FILE[:NAME]'."),
        (["run", "functions.py:greet", "--nmae", "a"], "No such option: --nmae"),
        (["executions", "list", "--limit", "0"], "Invalid value for '--limit'"),
    ],
)
def test_a_command_line_that_means_nothing_is_one_line_with_a_code_and_what_to_write(
    holdfast: Program, words: list[str], says: str
) -> None:
    ended = holdfast(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"error\[invalid_parameter\]: [^\n]+ Write `holdfast [^\n]+`; `holdfast[^\n]* --help` tells more\.\n", ended.stderr)
    assert says in ended.stderr


def test_a_group_without_a_command_prints_its_help(holdfast: Program) -> None:
    ended = holdfast("queues")
    assert ended.returncode == 2
    assert "push" in ended.stdout + ended.stderr
    assert "error[" not in ended.stderr


def test_the_version_is_told(holdfast: Program) -> None:
    assert re.fullmatch(r"holdfast \d+\.\d+\.\d+\n", holdfast("--version").stdout)


def test_every_command_has_help_and_a_heading_in_the_reference(root: Path) -> None:
    reference = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = _commands(typer.main.get_command(program()), "holdfast")
    assert len(commands) >= 29
    for path, command in commands.items():
        assert command.help, path
        section = reference.partition(f"## {path}\n")[2].partition("\n## ")[0]
        missing = [
            option for parameter in command.params for option in parameter.opts if option.startswith("--") and f"`{option}" not in section
        ]
        assert section, f"no heading for {path}"
        assert missing == [], path


def _commands(group: Any, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= _commands(command, f"{path} {name}") if hasattr(command, "commands") else {f"{path} {name}": command}
    return found


def test_an_output_that_cannot_be_written_is_no_bug(holdfast: Program) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([*PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=holdfast.folder)
    assert (ended.returncode, ended.stderr) == (3, "error[output_failed]: Standard output cannot be written: No space left on device.\n")
