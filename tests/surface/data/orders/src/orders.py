"""An order: checked, approved by a person, processed by a service that fails now and then. Written for the official SDK."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, StepContext, durable_execution, durable_step
from aws_durable_execution_sdk_python.config import CallbackConfig, Duration, StepConfig
from aws_durable_execution_sdk_python.retries import RetryStrategyConfig, create_retry_strategy

CODE = "first"


@durable_step
def validate_order(step_context: StepContext, order_id: str) -> dict[str, str]:
    step_context.logger.info("Validating order: %s", order_id)
    return {"order_id": order_id, "status": "validated", "stage": os.environ["STAGE"]}


@durable_step
def send_for_approval(step_context: StepContext, callback_id: str, order_id: str) -> dict[str, str]:
    sys.stdout.write(f"asking {os.environ['MAIL']} to approve {order_id}\n")
    return {"order_id": order_id, "callback_id": callback_id, "status": "sent_for_approval"}


@durable_step
def process_order(step_context: StepContext, order_id: str, place: str | None, failures: int) -> dict[str, str]:
    if step_context.attempt <= failures:
        raise ConnectionError("the payment service is not there")
    if place is not None:
        _stay(Path(place))
    return {"order_id": order_id, "status": "processed", "code": CODE}


def _stay(place: Path) -> None:
    """The first time, report that the step began and never return: the test will kill this process."""
    try:
        place.touch(exist_ok=False)
    except FileExistsError:
        return
    os.read(os.pipe()[0], 1)


@durable_execution
def lambda_handler(event: dict[str, Any], context: DurableContext) -> dict[str, Any]:
    order_id = event["order_id"]
    validated = context.step(validate_order(order_id))
    callback: Any = context.create_callback(name="awaiting-approval", config=CallbackConfig(timeout=Duration.from_minutes(3)))
    context.step(send_for_approval(callback.callback_id, order_id))
    approval = callback.result()
    retry = create_retry_strategy(RetryStrategyConfig(max_attempts=3, initial_delay=Duration.from_seconds(1), backoff_rate=1.0))
    processing = process_order(order_id, event.get("place"), event.get("failures", 0))
    processed = context.step(processing, config=StepConfig(retry_strategy=retry))
    return {**processed, "stage": validated["stage"], "approval": approval}
