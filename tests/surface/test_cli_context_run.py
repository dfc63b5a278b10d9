"""`holdfast run` of a function that runs workers: where they are found, and what is said if they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.author_files.function_loader import declares_function
from holdfast.author_files.worker_search import worker_files
from tests.surface.cli_program import Program
from tests.workers.pages import page, write

ECHO = """
from holdfast import worker

@worker("echo.md")
def echo(inputs, ctx):
    return {"heard": inputs["said"]}
"""
CALLER = """
from holdfast import durable_execution

NAME = "echo"

@durable_execution
def literal(event, context):
    return context.run("echo", {"said": event["say"]}).outputs

@durable_execution
def computed(event, context):
    return context.run(NAME, {"said": event["say"]}).outputs

def helper():
    return None
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    write(tmp_path, ECHO, echo=page("echo"))
    (tmp_path / "caller.py").write_text(CALLER)
    return Program(tmp_path)


def heard(program: Program, function: str, *more: str) -> tuple[int, str, str]:
    ended = program("run", f"caller.py:{function}", "--input", '{"say": "hello"}', "--isolation", "inline", *more)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_worker_that_the_function_names_is_found_in_its_folder(program: Program) -> None:
    code, printed, said = heard(program, "literal")
    assert (code, json.loads(printed)) == (0, {"heard": "hello"}), said


def test_a_worker_whose_id_is_computed_is_given_by_hand(tmp_path: Path, program: Program) -> None:
    (tmp_path / "caller.py").write_text(CALLER.replace('run("echo"', "run(NAME"))
    code, _, said = heard(program, "computed")
    assert (code, "--worker worker.py" in said) == (1, True), said
    code, printed, said = heard(program, "computed", "--worker", "worker.py")
    assert (code, json.loads(printed)) == (0, {"heard": "hello"}), said


def test_a_page_that_cannot_be_read_is_told_before_anything_is_run(tmp_path: Path, program: Program) -> None:
    (tmp_path / "echo.md").write_text("# Echo")
    code, _, said = heard(program, "literal")
    assert (code, "echo.md" in said) == (2, True), said


def test_workers_are_found_in_the_file_then_in_its_folder_then_in_the_library(tmp_path: Path) -> None:
    write(tmp_path, ECHO, echo=page("echo"))
    both = tmp_path / "both.py"
    both.write_text(ECHO + CALLER + '\n    context.run("web-scrape-worker@1.0", {})\n    context.run("echo", {})\n')
    found = worker_files(both)
    assert {file.parent.name if file.name == "worker.py" else file.name for file in found} == {"both.py", "web_scrape"}
    caller = tmp_path / "caller.py"
    caller.write_text(CALLER)
    (tmp_path / "both.py").unlink()
    assert worker_files(caller) == [tmp_path / "worker.py"]


@pytest.mark.parametrize("text", ["def (", "", "\0", "x.run()", "x.run(5)"])
def test_a_file_that_names_no_worker_needs_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "caller.py").write_text(text)
    assert worker_files(tmp_path / "caller.py") == []


def test_a_function_of_a_file_with_workers_is_told_from_them_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(ECHO + CALLER)
    named = {name: declares_function(tmp_path / "both.py", name) for name in ("literal", "computed", "echo", "helper", "nothing")}
    assert named == {"literal": True, "computed": True, "echo": False, "helper": False, "nothing": False}
