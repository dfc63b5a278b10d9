"""The logger says where a line comes from, says nothing twice, and costs nothing while it is silent."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import aws_durable_execution_sdk_python.logger as official
import pytest

from holdfast.durable.logger import Logger, LogInfo


class Execution:
    """Counts how often it is asked for its name."""

    asked = 0

    @property
    def durable_execution_arn(self) -> str:
        self.asked += 1
        return "arn:x"


@dataclass(frozen=True)
class Identity:
    operation_id: str = "op"
    parent_id: str | None = "parent"
    name: str | None = "charge"


@pytest.fixture
def lines() -> Iterator[logging.Logger]:
    """A logger of its own, at INFO."""
    logger = logging.getLogger("tests.durable")
    logger.setLevel(logging.INFO)
    yield logger
    logger.setLevel(logging.NOTSET)


VERBS = ["debug", "info", "warning", "error", "exception"]


@pytest.mark.parametrize("verb", VERBS)
def test_any_logger_with_the_five_verbs_will_do(verb: str) -> None:
    under = Mock()
    getattr(Logger(under, {"a": 1, "b": 1}), verb)("%s paid", "Ann", extra={"b": 2})
    getattr(under, verb).assert_called_once_with("%s paid", "Ann", extra={"a": 1, "b": 2})
    assert len(under.method_calls) == 1


def test_a_mock_that_pretends_to_be_the_standard_logger_sees_the_protocol_only() -> None:
    under = Mock(spec=logging.Logger)
    Logger(under, {}).info("x")
    under.info.assert_called_once_with("x", extra={})


@pytest.mark.parametrize("verb", VERBS)
def test_it_is_silent_while_its_context_replays(verb: str) -> None:
    under, replaying = Mock(), True
    logger = Logger(under, {}, lambda: replaying)
    getattr(logger, verb)("first")
    assert under.method_calls == []
    replaying = False
    getattr(logger, verb)("second")
    getattr(under, verb).assert_called_once_with("second", extra={})


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"parent_id": "p", "operation_id": "o", "name": "n", "attempt": 0},
        {"parent_id": "", "operation_id": "", "name": ""},
        {"attempt": 3},
    ],
)
def test_a_line_carries_the_fields_the_official_logger_writes(info: dict[str, Any]) -> None:
    ours, theirs, state = Mock(), Mock(), Execution()
    Logger.from_log_info(ours, LogInfo(state, **info)).info("x", extra={"mine": 1})
    official.Logger.from_log_info(theirs, official.LogInfo(state, **info)).info("x", extra={"mine": 1})  # type: ignore[arg-type]
    assert ours.info.call_args == theirs.info.call_args
    assert ours.info.call_args.kwargs["extra"]["executionArn"] == "arn:x"


def test_a_place_is_taken_from_an_operation_and_can_move() -> None:
    info = LogInfo.from_operation_identifier(Execution(), Identity(), attempt=2)
    assert (info.parent_id, info.operation_id, info.name, info.attempt) == ("parent", "op", "charge", 2)
    moved = info.with_parent_id("other")
    assert (moved.parent_id, moved.operation_id, moved.execution_state) == ("other", "op", info.execution_state)


def test_making_loggers_and_keeping_silent_asks_for_nothing(lines: logging.Logger) -> None:
    state = Execution()
    logger = Logger.from_log_info(lines, LogInfo(state)).with_log_info(LogInfo(state, name="n")).with_is_replaying(lambda: False)
    logger.debug("below the level")
    logger.with_is_replaying(lambda: True).error("replayed")
    assert state.asked == 0
    logger.info("once")
    logger.info("twice")
    assert state.asked == 1


def test_a_clone_keeps_what_it_does_not_change() -> None:
    under = Mock()
    silent = Logger(under, {"a": 1}, lambda: True)
    silent.with_log_info(LogInfo(Execution())).info("still replaying")
    assert under.method_calls == []
    silent.with_is_replaying(lambda: False).info("speaks")
    under.info.assert_called_once_with("speaks", extra={"a": 1})
    assert silent.get_logger() is under


def test_a_line_reports_the_users_own_place_in_the_code(lines: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    Logger.from_log_info(lines, LogInfo(Execution(), name="n")).warning("%d left", 3)
    (record,) = caplog.records
    assert (record.getMessage(), record.levelname, record.funcName) == (
        "3 left",
        "WARNING",
        "test_a_line_reports_the_users_own_place_in_the_code",
    )
    assert (vars(record)["executionArn"], vars(record)["operationName"]) == ("arn:x", "n")


def test_exception_logs_what_is_being_handled(lines: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("bad")
    except ValueError as error:
        Logger(lines, {}).exception("failed")
        handled = error
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is handled
