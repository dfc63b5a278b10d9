"""The event of a signal, in the form in which AWS sends changes of status to EventBridge."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.model.execution import ExecutionStatus
from holdfast.model.signals import StatusSignal

EventBridgeEvent = dict[str, Any]

SOURCE: Final = "aws.lambda"
DETAIL_TYPE: Final = "Durable Execution Status Change"
_IDS: Final = uuid.UUID("6f1d3f7e-52d3-5a37-9b57-0e0f6c1d9a10")


def event_of(signal: StatusSignal) -> EventBridgeEvent:
    """The event of a signal.

    The same signal always gives exactly the same event, with the same id. So a receiver that remembers ids can ignore an event that is
    delivered a second time.
    """
    function_arn = signal.arn.partition("/durable-execution/")[0]
    _, _, _, region, account, *_ = signal.arn.split(":")
    at = signal.ended_at or signal.quarantined_at or signal.started_at
    detail = {
        "durableExecutionArn": signal.arn,
        "durableExecutionName": signal.name,
        "functionArn": function_arn,
        "status": signal.status.value,
        "startTimestamp": _moment(signal.started_at, "milliseconds"),
    }
    if signal.status is not ExecutionStatus.RUNNING and signal.ended_at is not None:
        detail["endTimestamp"] = _moment(signal.ended_at, "milliseconds")
    told = f"{signal.arn} {signal.status.value}"  # an execution has each status once, but may be quarantined more than once
    if signal.quarantine is not None:
        detail["quarantine"] = signal.quarantine.value
        told += f" {signal.quarantine.value} {signal.number}"
    return {
        "version": "0",
        "id": str(uuid.uuid5(_IDS, told)),
        "detail-type": DETAIL_TYPE,
        "source": SOURCE,
        "account": account,
        "time": _moment(at, "seconds"),
        "region": region,
        "resources": [],
        "detail": detail,
    }


def _moment(at: int, precision: str) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
