"""Errors inside durable functions.

The errors of durable operations have the names of the official SDK, and a replay raises the same error as the first run. The
[errors of verbs](verb_errors.md) are raised outside of functions, by an engine or a client.
"""

from typing import Any

from holdfast import (
    CallbackConfig,
    DurableContext,
    Duration,
    EnqueueRefused,
    MapConfig,
    StepConfig,
    WorkerError,
    WorkerFailed,
    durable_execution,
)
from holdfast.durable import (
    BatchCompletionError,
    CallbackError,
    CallbackExternalError,
    CallbackSubmitterError,
    CallbackTimeoutError,
    ChildContextError,
    CompletionOutcome,
    DurableExecutionsError,
    DurableOperationError,
    ExecutionError,
    InvocationError,
    InvokeError,
    PluginLoadError,
    RetryableSerDesError,
    SerDesError,
    StepError,
    ValidationError,
    WaitForConditionError,
    complete_batch,
)
from holdfast.durable.config import CompletionConfig, StepSemantics, WaitForCallbackConfig
from holdfast.durable.exceptions import (
    BotoClientError,
    CheckpointError,
    GetExecutionStateError,
    InvalidStateError,
    NonDeterministicExecutionError,
    OrderedLockError,
    StepInterruptedError,
    TerminationReason,
    UnrecoverableError,
    register_operation_error,
)
from holdfast.durable.execution import DurableFunction
from holdfast.durable.lambda_service import CallbackTimeoutType, ErrorObject
from holdfast.durable.plugin_discovery import load_configured_plugins
from holdfast.durable.retries import RetryDecision, RetryPresets
from holdfast.durable.serdes import deserialize
from holdfast.durable.waits import WaitForConditionConfig, WaitStrategyConfig, create_wait_strategy
from holdfast.testing import Runner

NO_RETRY = StepConfig(retry_strategy=RetryPresets.none())


def run(function: DurableFunction, event: Any = None, **more: Any) -> Any:
    """Run a function on an engine in memory, where no wait takes time."""
    with Runner(function, **more) as runner:
        return runner.run(event).result


def refuse(*_: Any) -> Any:
    """Do what a failing service does."""
    raise ValueError("refused")


# --- DurableExecutionsError, ValidationError
try:
    Duration(-1)
except DurableExecutionsError as error:
    assert isinstance(error, ValidationError)
    assert error.code == "validation_error"


# --- StepError, DurableOperationError
@durable_execution
def step_fails(event: Any, context: DurableContext) -> list[Any]:
    try:
        return context.step(refuse, name="charge", config=NO_RETRY)
    except StepError as error:
        return [isinstance(error, DurableOperationError), error.error_type, error.message]


assert run(step_fails) == [True, "ValueError", "refused"]


# --- ChildContextError
@durable_execution
def context_fails(event: Any, context: DurableContext) -> Any:
    try:
        return context.run_in_child_context(refuse, name="warehouse")
    except ChildContextError as error:
        return error.message


assert run(context_fails) == "refused"


# --- WorkerFailed
@durable_execution
def worker_fails(event: Any, context: DurableContext) -> Any:
    try:
        return context.run("web-scrape-worker", {"url": "https://lighthouse.example"}).outputs
    except WorkerFailed as error:
        return [error.error_code, error.response.status]


assert run(worker_fails, workers={"web-scrape-worker": WorkerError("access_denied", "robots.txt")}) == ["access_denied", "permanent_error"]


# --- EnqueueRefused
@durable_execution
def enqueue_is_refused(event: Any, context: DurableContext) -> Any:
    try:
        return context.enqueue("send-email", {"to": "ann"}, queue="emails")
    except EnqueueRefused as error:
        return error.retry_after_seconds if error.is_overloaded else error.message


assert run(enqueue_is_refused) == "Function not found: send-email"


# --- InvokeError
@durable_execution
def invoke_fails(event: Any, context: DurableContext) -> Any:
    try:
        return context.invoke("tax", {})
    except InvokeError as error:
        return error.message


assert run(invoke_fails, stubs={"tax": ValueError("refused")}) == "refused"


# --- WaitForConditionError
@durable_execution
def condition_fails(event: Any, context: DurableContext) -> str:
    strategy = create_wait_strategy(WaitStrategyConfig[int](lambda state: True, max_attempts=2))
    try:
        context.wait_for_condition(lambda state, check: state + 1, WaitForConditionConfig(strategy, initial_state=0))
    except WaitForConditionError as error:
        return str(error)
    return "met"


assert "exhausted 2 attempts" in run(condition_fails)


# --- CallbackTimeoutError, CallbackError, CallbackTimeoutType
@durable_execution
def callback_times_out(event: Any, context: DurableContext) -> Any:
    callback = context.create_callback(name="approval", config=CallbackConfig(timeout=Duration.from_hours(1)))
    try:
        return callback.result()
    except CallbackTimeoutError as error:
        return isinstance(error, CallbackError)


with Runner(callback_times_out) as runner:
    late = runner.run()
assert late.result is True
recorded = late.get_callback("approval").error
assert recorded is not None
assert recorded.type == CallbackTimeoutType.TIMEOUT.value


# --- CallbackExternalError
@durable_execution
def callback_fails(event: Any, context: DurableContext) -> Any:
    callback = context.create_callback(name="approval")
    try:
        return callback.result()
    except CallbackExternalError as error:
        return error.message


with Runner(callback_fails) as runner:
    arn = runner.run_async()
    runner.send_callback_failure(runner.wait_for_callback(arn), "denied")
    assert runner.wait_for_result(arn).result == "denied"


# --- CallbackSubmitterError
@durable_execution
def mail_fails(event: Any, context: DurableContext) -> Any:
    try:
        return context.wait_for_callback(refuse, config=WaitForCallbackConfig(retry_strategy=RetryPresets.none()))
    except CallbackSubmitterError as error:
        return error.message


assert run(mail_fails) == "refused"


# --- BatchCompletionError
@durable_execution
def batch_fails(event: Any, context: DurableContext) -> bool:
    config = MapConfig[int](completion_config=CompletionConfig(should_complete=lambda status: complete_batch(CompletionOutcome.FAILED)))
    batch = context.map([1, 2], lambda branch, item, index, items: item, config=config)
    try:
        batch.throw_if_error()
    except BatchCompletionError:
        return True
    return False


assert run(batch_fails) is True


# --- ExecutionError, UnrecoverableError, TerminationReason
@durable_execution
def gives_up(event: Any, context: DurableContext) -> None:
    raise ExecutionError("this order can never succeed")


with Runner(gives_up) as runner:
    ended = runner.run()
assert (ended.status, ended.error and ended.error.message) == ("FAILED", "this order can never succeed")
assert isinstance(ExecutionError("x"), UnrecoverableError)
assert ExecutionError("x").termination_reason is TerminationReason.EXECUTION_ERROR


# --- InvocationError
tries: list[int] = []


@durable_execution
def second_time(event: Any, context: DurableContext) -> int:
    tries.append(1)
    if len(tries) == 1:
        raise InvocationError("the network is down: invoke me again")
    return len(tries)


assert run(second_time) == 2


# --- StepInterruptedError
def judge(error: Exception, attempt: int) -> RetryDecision:
    """A step that a crash interrupted is not run again here: its effect may have happened."""
    return RetryDecision.no_retry() if isinstance(error, StepInterruptedError) else RetryDecision.retry(Duration(1))


at_most_once = StepConfig(retry_strategy=judge, step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
assert not judge(StepInterruptedError("the process died", "step-1"), 1).should_retry


# --- NonDeterministicExecutionError
assert NonDeterministicExecutionError("the code changed", "step-1").termination_reason is TerminationReason.NON_DETERMINISTIC_EXECUTION


# --- SerDesError
try:
    deserialize(None, "no JSON", "operation-1", "arn")
except SerDesError as error:
    assert error.code == "ser_des_error"


# --- RetryableSerDesError
def read_from_bucket(answered: bool) -> str:
    if not answered:
        raise RetryableSerDesError("the bucket did not answer")  # a serdes raises it: the invocation is tried again
    return "value"


try:
    read_from_bucket(answered=False)
except RetryableSerDesError as error:
    assert error.is_retryable()


# --- InvalidStateError, OrderedLockError
assert InvalidStateError("it is closed").code == "invalid_state_error"
assert OrderedLockError("an earlier branch failed", ValueError("refused")).source_exception is not None


# --- PluginLoadError
try:
    load_configured_plugins([], environment={"DURABLE_EXECUTION_PLUGINS": "a-plugin-that-is-not-installed"})
except PluginLoadError as error:
    assert "a-plugin-that-is-not-installed" in str(error)


# --- BotoClientError, CheckpointError, GetExecutionStateError
class Throttled(Exception):
    """What boto3 raises has such a response."""

    def __init__(self) -> None:
        super().__init__("slow down")
        self.response = {"Error": {"Code": "TooManyRequestsException"}, "ResponseMetadata": {"HTTPStatusCode": 429}}


for kind in (CheckpointError, GetExecutionStateError):
    failed: BotoClientError = kind.from_exception(Throttled())
    assert failed.is_retryable()


# --- register_operation_error
class ShippingError(DurableOperationError):
    """An error of your own that a replay can rebuild."""


register_operation_error(ShippingError)


# --- ErrorObject
described = ErrorObject.from_exception(ValueError("refused"))
assert described.to_dict() == {"ErrorMessage": "refused", "ErrorType": "ValueError"}
