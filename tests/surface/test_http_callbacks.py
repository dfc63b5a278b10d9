"""The three answers to a callback, with boto3."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.model.clock import VirtualClock
from holdfast.service.settings import Settings
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("callbacks") / "store.db", ALL) as running:
        yield running


@pytest.fixture
def asked(server: Served) -> tuple[str, str]:
    """An execution that waits, and the callback it waits for."""
    arn = str(server.invoke("asking:$LATEST", InvocationType="Event")["DurableExecutionArn"])
    return arn, server.callback_id(arn)


def test_an_answer_reaches_the_handler_as_the_text_it_is(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    answer = server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result='"é"'.encode())
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert json.loads(server.ended(arn)["Result"]) == '"é"', "the quotes are the sender's"


def test_an_answer_without_a_result_is_none(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback)
    assert json.loads(server.ended(arn)["Result"]) is None


def test_a_failure_brings_its_error(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    error = {"ErrorMessage": "rejected", "ErrorType": "Review", "ErrorData": "{}", "StackTrace": ["line"]}
    server.lambda_.send_durable_execution_callback_failure(CallbackId=callback, Error=error)
    assert server.ended(arn)["Status"] == "FAILED"
    events = server.lambda_.get_durable_execution_history(DurableExecutionArn=arn)["Events"]
    (failed,) = [event for event in events if event["EventType"] == "CallbackFailed"]
    assert failed["CallbackFailedDetails"]["Error"]["Payload"] == error


def test_a_failure_without_an_error_wakes_the_execution_too(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    server.lambda_.send_durable_execution_callback_failure(CallbackId=callback)
    assert server.ended(arn)["Status"] == "FAILED"


def test_a_heartbeat_keeps_a_callback_open_and_is_no_part_of_the_story(tmp_path_factory: pytest.TempPathFactory) -> None:
    clock = VirtualClock(skipping=False)
    with served(tmp_path_factory.mktemp("beats") / "store.db", ALL, settings=Settings(clock=clock)) as running:
        arn = str(running.invoke("asking:$LATEST", InvocationType="Event")["DurableExecutionArn"])
        callback = running.callback_id(arn)
        running.rest()
        before = running.api.engine.store.operations(arn.rpartition("/")[2])[0].due_at
        clock.move_to(clock.now() + 60_000)
        running.lambda_.send_durable_execution_callback_heartbeat(CallbackId=callback)
        after = running.api.engine.store.operations(arn.rpartition("/")[2])[0].due_at
        assert (before, after) == (before, (before or 0) + 60_000)
        assert "Heartbeat" not in json.dumps(
            [event["EventType"] for event in running.lambda_.get_durable_execution_history(DurableExecutionArn=arn)["Events"]]
        )


ANSWERS: list[Callable[[Any, str], Any]] = [
    lambda client, callback: client.send_durable_execution_callback_success(CallbackId=callback, Result=b"1"),
    lambda client, callback: client.send_durable_execution_callback_failure(CallbackId=callback, Error={"ErrorMessage": "no"}),
    lambda client, callback: client.send_durable_execution_callback_heartbeat(CallbackId=callback),
]
each_answer = pytest.mark.parametrize("answer", ANSWERS, ids=["succeed", "fail", "heartbeat"])


@each_answer
def test_a_callback_is_answered_once(server: Served, asked: tuple[str, str], answer: Callable[[Any, str], Any]) -> None:
    arn, callback = asked
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b'"first"')
    server.ended(arn)
    before = server.rest()
    with pytest.raises(server.lambda_.exceptions.CallbackTimeoutException) as error:
        answer(server.lambda_, callback)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert error.value.response["Error"]["Message"] == "The callback is either timed out or already completed."
    assert server.count() == before


@each_answer
@pytest.mark.parametrize("callback", ["x", "AAAA", "a" * 1025, "not base64!", "é", "QUJD=QUJD"])
def test_what_is_no_callback_id_is_refused(server: Served, callback: str, answer: Callable[[Any, str], Any]) -> None:
    before = server.rest()
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException, match="Invalid callback id"):
        answer(server.lambda_, callback)
    assert server.count() == before


@each_answer
def test_a_callback_of_nothing_is_not_found(server: Served, asked: tuple[str, str], answer: Callable[[Any, str], Any]) -> None:
    """Sealed by this store, so it was given out once; but its execution, or its operation, is not there any more."""
    arn, _ = asked
    seal = server.api.engine.store.seal
    for execution, operation in ((arn.rpartition("/")[2], "gone"), ("01a1e272-eb80-7000-b221-33b3c2de15dd", "x")):
        with pytest.raises(server.lambda_.exceptions.ResourceNotFoundException):
            answer(server.lambda_, seal.callback(execution, operation))


def test_a_result_may_have_a_megabyte_and_not_a_byte_more(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException, match="1048576"):
        server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"x" * (1024 * 1024 + 1))
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"x" * 1024 * 1024)
    assert len(server.ended(arn)["Result"]) == 1024 * 1024 + 2


def test_a_result_that_is_no_text_is_refused_and_the_callback_stays_open(server: Served, asked: tuple[str, str]) -> None:
    arn, callback = asked
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException, match="UTF-8"):
        server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"\xff")
    server.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"1")
    assert server.ended(arn)["Status"] == "SUCCEEDED"


@pytest.mark.parametrize("safe", ["", "/", "/+="], ids=["encoded", "raw slashes", "raw"])
def test_a_callback_id_may_come_raw_or_encoded(server: Served, asked: tuple[str, str], safe: str) -> None:
    arn, callback = asked
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    connection.request("POST", f"/2025-12-01/durable-execution-callbacks/{quote(callback, safe=safe)}/succeed", b"5")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"{}")
    connection.close()
    assert server.ended(arn)["Status"] == "SUCCEEDED"
