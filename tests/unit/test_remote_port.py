"""The port over a Lambda client: the limits of a request, the service's clock, and where the client comes from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from holdfast.durable.remote.client import default_client
from holdfast.durable.remote.port import MAX_BYTES, MAX_UPDATES, RemotePort, ServiceClock, batches
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExtraMissing
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Type, Update

AT = Position("an execution", 0, 0, 0)


def succeeded(name: str, size: int = 0) -> Update:
    return Update(id=name, type=Type.STEP, action=Action.SUCCEED, payload="x" * size)


class Client:
    """Keeps the updates of each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[str]]] = []

    def checkpoint_durable_execution(self, **asked: Any) -> Any:
        self.requests.append((asked["CheckpointToken"], [update["Id"] for update in asked["Updates"]]))
        return {"CheckpointToken": f"{len(self.requests)}", "NewExecutionState": {"Operations": []}}

    def get_durable_execution_state(self, **asked: Any) -> Any:
        raise AssertionError("the port must not call this")


def sizes(updates: list[Update]) -> list[int]:
    return [len(batch) for batch in batches(updates)]


def test_a_request_has_so_many_updates_at_most() -> None:
    assert sizes([succeeded(str(count)) for count in range(2 * MAX_UPDATES + 1)]) == [MAX_UPDATES, MAX_UPDATES, 1]
    assert sizes([succeeded(str(count)) for count in range(MAX_UPDATES)]) == [MAX_UPDATES]


def test_a_request_has_so_many_bytes_at_most_but_one_update_always_goes() -> None:
    third = MAX_BYTES // 3
    assert sizes([succeeded(str(count), third) for count in range(4)]) == [2, 2]
    assert sizes([succeeded("a", 8 * MAX_BYTES), succeeded("b"), succeeded("c", 8 * MAX_BYTES)]) == [1, 1, 1]


def test_a_letter_counts_as_it_is_sent() -> None:
    letters = MAX_BYTES // 6 // 2
    assert sizes([Update(id=name, type=Type.STEP, action=Action.SUCCEED, payload="ä" * letters) for name in "ab"]) == [1, 1]


def test_no_updates_are_one_request_that_asks_for_news() -> None:
    assert list(batches([])) == [[]]


def test_what_does_not_fit_into_one_request_goes_in_order_each_with_the_token_of_the_one_before() -> None:
    client = Client()
    port = RemotePort(client, "an execution", "0", VirtualClock())
    names = [f"{count}" for count in range(MAX_UPDATES + 1)]
    answer = port.checkpoint(AT, [succeeded(name) for name in names])
    assert client.requests == [("0", names[:-1]), ("1", names[-1:])]
    assert answer.token is not None
    port.checkpoint(answer.token, [])
    assert client.requests[-1] == ("2", [])


def test_the_services_clock_is_ours_put_forward() -> None:
    ours = VirtualClock(1000)
    clock = ServiceClock(ours)
    clock.seen(900)
    assert clock.now() == 1000
    clock.seen(5000)
    clock.seen(4000)
    assert clock.now() == 5000
    ours.move_to(1500)
    assert clock.now() == 5500


def test_a_clock_that_is_set_back_is_not_behind_a_time_that_the_service_has_shown() -> None:
    class Machine(VirtualClock):
        time = 1000

        def now(self) -> int:
            return self.time

    ours = Machine()
    clock = ServiceClock(ours)
    clock.seen(5000)
    ours.time = 400
    assert clock.now() == 5000
    ours.time = 1200
    assert clock.now() == 5200


# --- the client --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_client_yet() -> Iterator[None]:
    default_client.cache_clear()
    yield
    default_client.cache_clear()


@pytest.mark.usefixtures("no_client_yet")
def test_one_client_serves_all_invocations_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client: Any = default_client()
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 50)
    assert "holdfast" in config.user_agent_extra
    assert default_client() is client


@pytest.mark.usefixtures("no_client_yet")
def test_an_absent_boto3_is_one_sentence_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ExtraMissing, match=r"boto3 is not installed.*pip install 'holdfast\[aws\]'"):
        default_client()


@pytest.mark.usefixtures("no_client_yet")
def test_a_boto3_without_durable_functions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old: Any = ModuleType("boto3")
    old.__version__ = "1.40.0"
    old.client = lambda *_, **__: object()
    monkeypatch.setitem(sys.modules, "boto3", old)
    with pytest.raises(ExtraMissing, match=r"boto3 \(1\.40\.0\) is older than Lambda's durable functions"):
        default_client()


def test_the_entry_for_lambda_loads_neither_boto3_nor_the_official_sdk() -> None:
    code = "import sys, holdfast.durable.remote.lambda_entry; print(*(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert {"boto3", "botocore", "aws_durable_execution_sdk_python"} & set(loaded) == set()
