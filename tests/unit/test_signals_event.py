"""The event of a signal is the one AWS documents, and the same whenever it is sent."""

import uuid

import msgspec
import pytest

from holdfast.model.execution import ExecutionStatus
from holdfast.model.signals import StatusSignal
from holdfast.signals.event import event_of

ARN = "arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/o-1/0190a1b2-0000-7000-8000-000000000000"
BEGUN = StatusSignal(
    number=7,
    arn=ARN,
    name="o-1",
    function="order",
    version="$LATEST",
    status=ExecutionStatus.RUNNING,
    started_at=1_767_225_600_007,
    ended_at=None,
)


def test_a_beginning_has_the_documented_shape() -> None:
    event = event_of(BEGUN)
    assert str(uuid.UUID(event.pop("id"))) != ""
    assert event == {
        "version": "0",
        "detail-type": "Durable Execution Status Change",
        "source": "aws.lambda",
        "account": "000000000000",
        "time": "2026-01-01T00:00:00Z",
        "region": "local",
        "resources": [],
        "detail": {
            "durableExecutionArn": ARN,
            "durableExecutionName": "o-1",
            "functionArn": "arn:aws:lambda:local:000000000000:function:order:$LATEST",
            "status": "RUNNING",
            "startTimestamp": "2026-01-01T00:00:00.007Z",
        },
    }


@pytest.mark.parametrize("status", [status for status in ExecutionStatus if status is not ExecutionStatus.RUNNING])
def test_an_end_has_its_time_too(status: ExecutionStatus) -> None:
    event = event_of(msgspec.structs.replace(BEGUN, status=status, ended_at=BEGUN.started_at + 61_000))
    assert (event["time"], event["detail"]["status"]) == ("2026-01-01T00:01:01Z", status.value)
    assert event["detail"]["endTimestamp"] == "2026-01-01T00:01:01.007Z"


def test_an_event_sent_again_has_the_same_id_and_another_status_another() -> None:
    ids = {event_of(msgspec.structs.replace(BEGUN, number=number))["id"] for number in (1, 2)}
    assert len(ids) == 1
    assert event_of(msgspec.structs.replace(BEGUN, status=ExecutionStatus.FAILED, ended_at=0))["id"] not in ids
    assert event_of(msgspec.structs.replace(BEGUN, arn=ARN + "1"))["id"] not in ids
