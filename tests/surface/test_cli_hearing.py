"""`holdfast run` lets its functions be heard: their log lines and failed invocations are on stderr without any logging set up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli.function_logs import print_function_logs
from holdfast.durable.logger import Logger
from tests.surface.cli_program import Program, until

ARN = "arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/first/01a1e1b7-c838-7000-89bd-bc742642ace4"
SPEAKING = """
import logging
import sys

from holdfast import Duration, durable_execution, durable_step


@durable_step
def charge(step, amount):
    step.logger.info("charging %s", amount)
    logging.getLogger("elsewhere").info("of no interest")


@durable_execution
def order(event, context):
    context.logger.info("it begins")
    context.step(charge(5))
    context.wait(Duration.from_seconds(1))
    context.logger.warning("it ends")


@durable_execution
def leaves(event, context):
    context.step(lambda _: sys.exit("no bank today"))
"""


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    (tmp_path / "speaking.py").write_text(SPEAKING)
    return Program(tmp_path)


def test_log_lines_of_a_function_are_on_stderr_once_with_their_place_and_not_again_on_replay(holdfast: Program) -> None:
    ended = holdfast("run", "speaking.py:order", "--name", "first")
    assert ended.stdout == "null\n"
    assert ended.stderr.splitlines()[1:] == [
        "order/first: it begins",
        "order/first charge: charging 5",
        "order/first: WARNING: it ends",
    ]


def test_a_failed_invocation_is_on_stderr_and_in_show_before_the_next_try(holdfast: Program) -> None:
    process = holdfast.begin("run", "speaking.py:leaves", "--name", "first")
    try:
        shown = until(lambda: (found := holdfast.show("leaves/first")) and found["trouble"])
    finally:
        process.kill()
        said = process.communicate()[1]
    assert shown["error"] == "SystemExit: no bank today"
    assert shown["place"].endswith("speaking.py:24 in <lambda>")
    assert "leaves/first: an invocation failed: SystemExit: no bank today, at " in said
    assert "the 1st failure in a row; the next try is in " in said


@contextmanager
def bare() -> Iterator[logging.Logger]:
    """The root logger of a program that set up nothing; pytest has handlers of its own there."""
    root, last = logging.getLogger(), logging.lastResort
    handlers, level = root.handlers, root.level
    root.handlers, root.level = [], logging.WARNING
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    try:
        yield root
    finally:
        root.handlers, logging.lastResort = handlers, last
        root.setLevel(level)


def test_what_the_author_sets_up_later_decides_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with bare() as root:
        print_function_logs()
        logger = Logger(root, {"executionArn": ARN, "operationName": "charge", "attempt": 2})
        logger.info("as plain as it gets")
        assert capsys.readouterr().err == "order/first charge (attempt 2): as plain as it gets\n"
        root.addHandler(logging.NullHandler())
        logger.info("for the author's handler")
        assert capsys.readouterr().err == ""


def test_a_program_with_logging_of_its_own_is_left_as_it_is() -> None:
    with bare() as root:
        last = logging.lastResort
        root.addHandler(logging.NullHandler())
        print_function_logs()
        assert (root.level, logging.lastResort) == (logging.WARNING, last)


def test_of_other_loggers_only_warnings_are_heard_and_no_line_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bare():
        print_function_logs()
        logging.getLogger("elsewhere").info("of no interest")
        logging.getLogger("elsewhere").warning("red \x1b[31m\nand more")
        assert capsys.readouterr().err == "red \\u001b[31m\nand more\n"
