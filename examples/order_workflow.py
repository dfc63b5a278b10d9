"""Order processing: validate, ask a person for approval, process with retries.

Written for the official AWS SDK and unchanged but for the import root (`holdfast.durable` instead of the official package's).
"""

import random

from holdfast.durable import DurableContext, StepContext, durable_execution, durable_step
from holdfast.durable.config import CallbackConfig, Duration, StepConfig
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy


@durable_step
def validate_order(step_context: StepContext, order_id: str) -> dict[str, str]:
    """Check that everything needed is there."""
    step_context.logger.info(f"Validating order: {order_id}")
    return {"order_id": order_id, "status": "validated"}


@durable_step
def send_for_approval(step_context: StepContext, callback_id: str, order_id: str) -> dict[str, str]:
    """Hand the callback's id to the approver, who answers with it."""
    step_context.logger.info(f"Sending order {order_id} for approval with callback_id: {callback_id}")
    return {"order_id": order_id, "callback_id": callback_id, "status": "sent_for_approval"}


@durable_step
def process_order(step_context: StepContext, order_id: str) -> dict[str, str]:
    """Call a service that fails now and then."""
    step_context.logger.info(f"Processing order: {order_id}")
    if random.random() > 0.4:
        step_context.logger.info("Processing failed, will retry")
        raise Exception("Processing failed")
    return {"order_id": order_id, "status": "processed", "timestamp": "2025-11-27T10:00:00Z"}


@durable_execution
def lambda_handler(event: dict[str, str], context: DurableContext) -> dict[str, str]:
    """One order from beginning to end."""
    try:
        order_id = event["order_id"]

        validated = context.step(validate_order(order_id))
        if validated["status"] != "validated":
            raise Exception("Validation failed")
        context.logger.info(f"Order validated: {validated}")

        callback = context.create_callback(name="awaiting-approval", config=CallbackConfig(timeout=Duration.from_minutes(3)))
        context.logger.info(f"Created callback with id: {callback.callback_id}")

        approval_request = context.step(send_for_approval(callback.callback_id, order_id))
        context.logger.info(f"Approval request sent: {approval_request}")

        approval_result = callback.result()
        context.logger.info(f"Approval received: {approval_result}")

        retry_config = RetryStrategyConfig(max_attempts=3, backoff_rate=2.0)
        processed = context.step(process_order(order_id), config=StepConfig(retry_strategy=create_retry_strategy(retry_config)))
        if processed["status"] != "processed":
            raise Exception("Processing failed")

        context.logger.info(f"Order successfully processed: {processed}")
        return processed
    except Exception as error:
        context.logger.error(f"Error processing order: {error}")
        raise
