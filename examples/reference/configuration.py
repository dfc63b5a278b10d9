"""Configuration of operations.

How steps, callbacks, branches and conditions run: configurations, retry strategies, and serdes. A serdes writes values as text and
reads them back.
"""

import tempfile
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from holdfast import CallbackConfig, DurableContext, Duration, InvokeConfig, MapConfig, ParallelConfig, StepConfig, durable_execution
from holdfast.durable import (
    BatchItemStatus,
    BatchResult,
    CompletionDecision,
    CompletionItemStatus,
    CompletionOutcome,
    CompletionStatus,
    complete_batch,
    continue_batch,
)
from holdfast.durable.concurrency.models import BatchItem, CompletionReason
from holdfast.durable.config import ChildConfig, CompletionConfig, JitterStrategy, NestingType, StepSemantics, WaitForCallbackConfig
from holdfast.durable.execution import DurableFunction
from holdfast.durable.filesystem_serdes import (
    FileSystemPathEncoding,
    FileSystemSerDes,
    FileSystemSerDesConfig,
    FileSystemSerDesMode,
    GeneratePreview,
)
from holdfast.durable.preview import FieldMatchMode, PreviewConfig, PreviewField, PreviewMode, build_preview
from holdfast.durable.retries import (
    LinearRetryStrategyConfig,
    RetryDecision,
    RetryPresets,
    RetryStrategyConfig,
    create_linear_retry_strategy,
    create_retry_strategy,
)
from holdfast.durable.serdes import ExtendedTypeSerDes, JsonSerDes, PassThroughSerDes, SerDes, SerDesContext, deserialize, serialize
from holdfast.durable.types import DurableExecutionArn
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision, WaitStrategyConfig, create_wait_strategy
from holdfast.testing import Runner


def run(function: DurableFunction, event: Any = None, **more: Any) -> Any:
    """Run a function on an engine in memory, where no wait takes time."""
    with Runner(function, **more) as runner:
        return runner.run(event).result


def divide(branch: DurableContext, item: int, index: int, items: Any) -> float:
    """A branch of a map. It fails for 0."""
    return branch.step(lambda step: 12 / item, name="divide", config=StepConfig(retry_strategy=RetryPresets.none()))


# --- Duration
assert Duration.from_minutes(1.5) == Duration(90)
assert Duration.from_days(1).to_seconds() == 86_400


# --- StepConfig, StepSemantics
@durable_execution
def paying(event: Any, context: DurableContext) -> str:
    once = StepConfig(
        retry_strategy=RetryPresets.none(),
        step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY,
        timeout=Duration.from_seconds(30),
    )
    return context.step(lambda step: "paid", name="pay", config=once)


assert run(paying) == "paid"


# --- RetryPresets
@durable_execution
def flaky(event: Any, context: DurableContext) -> int:
    def body(step: Any) -> int:
        if step.attempt < 3:
            raise ConnectionError("the service does not answer")
        return int(step.attempt)

    return context.step(body, config=StepConfig(retry_strategy=RetryPresets.transient()))


assert run(flaky) == 3


# --- create_retry_strategy, RetryStrategyConfig, RetryDecision, JitterStrategy
config = RetryStrategyConfig(
    max_attempts=3,
    initial_delay=Duration.from_seconds(2),
    jitter_strategy=JitterStrategy.NONE,
    retryable_error_types=[ConnectionError],
)
strategy = create_retry_strategy(config)
assert strategy(ConnectionError(), 1) == RetryDecision.retry(Duration.from_seconds(2))
assert strategy(ConnectionError(), 3) == RetryDecision.no_retry()
assert not strategy(ValueError(), 1).should_retry
assert JitterStrategy.HALF.finalize_delay(10, random=Random(0)) >= 5


# --- create_linear_retry_strategy, LinearRetryStrategyConfig
linear = create_linear_retry_strategy(
    LinearRetryStrategyConfig(initial_delay=Duration(1), increment=Duration(4), jitter_strategy=JitterStrategy.NONE)
)
assert [linear(OSError(), attempt).delay.seconds for attempt in (1, 2)] == [1, 5]


# --- CallbackConfig, WaitForCallbackConfig
@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    two_days = WaitForCallbackConfig(
        timeout=Duration.from_days(2),
        heartbeat_timeout=Duration.from_hours(6),
        serdes=JsonSerDes(),
        retry_strategy=RetryPresets.default(),
    )
    return context.wait_for_callback(lambda callback_id, submitter: None, name="approval", config=two_days)


assert CallbackConfig(timeout=Duration(5)).timeout_seconds == 5
with Runner(asking) as runner:
    arn = runner.run_async()
    runner.send_callback_success(runner.wait_for_callback(arn), '{"approved": true}')
    assert runner.wait_for_result(arn).result == {"approved": True}


# --- InvokeConfig
@durable_execution
def caller(event: Any, context: DurableContext) -> Any:
    return context.invoke("tax", {"cents": 500}, config=InvokeConfig(cascade=False))


assert run(caller, stubs={"tax": lambda payload: payload["cents"] // 5}) == 100


# --- ChildConfig
@durable_execution
def grouped(event: Any, context: DurableContext) -> str:
    def inside(child: DurableContext) -> str:
        return child.step(lambda step: "packed", name="pack")

    return context.run_in_child_context(inside, name="warehouse", config=ChildConfig(is_virtual=True))


assert run(grouped) == "packed"


# --- ParallelConfig, NestingType
@durable_execution
def racing(event: Any, context: DurableContext) -> int:
    def branch(inside: DurableContext) -> str:
        return inside.step(lambda step: "done", name="work")

    config = ParallelConfig(max_concurrency=2, nesting_type=NestingType.FLAT)
    return context.parallel([branch, branch, branch], config=config).success_count


assert run(racing) == 3


# --- MapConfig
@durable_execution
def dividing(event: Any, context: DurableContext) -> list[Any]:
    config = MapConfig[int](max_concurrency=5, item_namer=lambda item, index: f"number {item}")
    return context.map(event, divide, name="numbers", config=config).get_results()


assert run(dividing, [2, 3]) == [6.0, 4.0]


# --- CompletionConfig, CompletionReason
@durable_execution
def tolerant(event: Any, context: DurableContext) -> list[Any]:
    config = MapConfig[int](completion_config=CompletionConfig(tolerated_failure_count=1))
    batch = context.map([1, 0, 3], divide, name="numbers", config=config)
    return [batch.success_count, batch.failure_count, batch.completion_reason is CompletionReason.ALL_COMPLETED]


assert run(tolerant) == [2, 1, True]
assert CompletionConfig.first_successful() == CompletionConfig(min_successful=1)


# --- BatchResult, BatchItem, BatchItemStatus
@durable_execution
def looking(event: Any, context: DurableContext) -> list[Any]:
    config = MapConfig[int](completion_config=CompletionConfig.all_completed())
    batch: BatchResult[float] = context.map([1, 0], divide, name="numbers", config=config)
    items: list[BatchItem[float]] = batch.all
    failed = [item.index for item in items if item.status is BatchItemStatus.FAILED]
    return [batch.get_results(), failed, len(batch.get_errors())]


assert run(looking) == [[12.0], [1], 1]


# --- continue_batch, complete_batch, CompletionStatus, CompletionItemStatus, CompletionDecision, CompletionOutcome
def two_of_three(status: CompletionStatus) -> CompletionDecision:
    last: CompletionItemStatus = status.items[-1]
    if status.success_count >= 2 or last.status is BatchItemStatus.SUCCEEDED:
        return complete_batch(CompletionOutcome.SUCCEEDED)
    return continue_batch()


@durable_execution
def voting(event: Any, context: DurableContext) -> bool:
    config = MapConfig[int](completion_config=CompletionConfig(should_complete=two_of_three))
    batch = context.map([1, 0, 3], divide, name="votes", config=config)
    return batch.completion_reason is CompletionReason.CUSTOM_COMPLETION_SUCCEEDED


assert run(voting) is True


# --- WaitForConditionConfig, create_wait_strategy, WaitStrategyConfig, WaitForConditionDecision
patient = create_wait_strategy(WaitStrategyConfig[int](lambda state: state < 3, max_attempts=10))


def in_steps(state: int, attempts: int) -> WaitForConditionDecision:
    """A strategy of your own."""
    if state >= 3:
        return WaitForConditionDecision.stop_polling()
    return WaitForConditionDecision.continue_waiting(Duration.from_seconds(attempts * 10))


@durable_execution
def polling(event: Any, context: DurableContext) -> int:
    seen = context.wait_for_condition(lambda state, check: state + 1, WaitForConditionConfig(patient, initial_state=0))
    return seen + context.wait_for_condition(lambda state, check: state + 1, WaitForConditionConfig(in_steps, initial_state=0))


assert run(polling) == 6


# --- SerDes, SerDesContext
class Shout(SerDes[str]):
    """A serdes of your own."""

    def serialize(self, value: str, context: SerDesContext) -> str:
        return value.upper()

    def deserialize(self, data: str, context: SerDesContext) -> str:
        return data.lower()


@durable_execution
def whisper(event: Any, context: DurableContext) -> str:
    return context.step(lambda step: "hello", config=StepConfig(serdes=Shout()))


assert run(whisper) == "hello"


# --- ExtendedTypeSerDes, JsonSerDes, PassThroughSerDes
@dataclass
class Item:
    sku: str
    cents: int


here = SerDesContext("operation-1", "arn")
assert ExtendedTypeSerDes[Any]().deserialize(ExtendedTypeSerDes[Any]().serialize(Decimal("1.10"))) == Decimal("1.10")
assert JsonSerDes[Item](Item).deserialize('{"sku": "tea", "cents": 5}', here) == Item("tea", 5)
assert PassThroughSerDes[str]().serialize("<order/>", here) == "<order/>"


# --- serialize, deserialize
text = serialize(None, (1, b"two"), "operation-1", "arn")
assert deserialize(None, text, "operation-1", "arn") == (1, b"two")


# --- FileSystemSerDes, FileSystemSerDesConfig, FileSystemSerDesMode, FileSystemPathEncoding, GeneratePreview
def shown(value: Any) -> dict[str, Any] | None:
    return {"rows": len(value)}


preview: GeneratePreview = shown
in_files = FileSystemSerDesConfig(
    storage_mode=FileSystemSerDesMode.ALWAYS, path_encoding=FileSystemPathEncoding.HASH, generate_preview=preview
)
with tempfile.TemporaryDirectory() as folder:

    @durable_execution
    def report(event: Any, context: DurableContext) -> int:
        rows = context.step(lambda step: list(range(1000)), config=StepConfig(serdes=FileSystemSerDes(folder, in_files)))
        return len(rows)

    assert run(report) == 1000


# --- build_preview, PreviewConfig, PreviewField, PreviewMode, FieldMatchMode
hiding = PreviewConfig(
    mode=PreviewMode.INCLUDE_ALL,
    exclude=[PreviewField("address", FieldMatchMode.PATH)],
    mask=[PreviewField("card")],
)
found = build_preview({"id": 1, "address": "here", "payment": {"card": "4711"}}, hiding)
assert found == {"id": 1, "payment": {"card": "***"}}


# --- DurableExecutionArn
arn_of_order = "arn:aws:lambda:eu-central-1:123456789012:function:order:1/durable-execution/order-42/0194"
parts = DurableExecutionArn.from_arn(arn_of_order)
assert parts is not None
assert (parts.function_name, parts.execution_name) == ("order", "order-42")
