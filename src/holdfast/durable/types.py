"""The types that authors use: the context of a handler, the contexts of its steps, and what operations return."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from holdfast.durable.config import CallbackConfig, ChildConfig, Duration, MapConfig, ParallelBranch, ParallelConfig, StepConfig
from holdfast.durable.protocols import LoggerInterface as LoggerInterface
from holdfast.durable.protocols import SummaryGenerator as SummaryGenerator

T = TypeVar("T")
U = TypeVar("U")
C_co = TypeVar("C_co", covariant=True)

_ARN = re.compile(r"arn:[^:]*:lambda:[^:]*:[^:]*:function:([^:/]+):[^:/]+/durable-execution/([^/]+)/([^/]+)")


@dataclass(frozen=True)
class OperationContext:
    """The base of the objects that the functions of steps, submitters and checks get. Its `logger` adds the execution and the operation to
    each line."""

    logger: LoggerInterface


@dataclass(frozen=True)
class StepContext(OperationContext):
    """The object that a step's function gets. `attempt` is the number of this attempt, from 1."""

    attempt: int


@dataclass(frozen=True)
class WaitForCallbackContext(OperationContext):
    """The object that the submitter of `wait_for_callback` gets, after the callback's id."""


@dataclass(frozen=True)
class WaitForConditionCheckContext(OperationContext):
    """The object that the check of `wait_for_condition` gets, after the state. `attempt` is the number of this call of the check, from
    1."""

    attempt: int


class Callback(Protocol[C_co]):
    """A callback: give `callback_id` to the system that will answer."""

    callback_id: str

    @abstractmethod
    def result(self) -> C_co | None:
        """Wait for the answer and return it; None if it has no value. The execution may be suspended meanwhile. Raises
        CallbackExternalError if the answer is a failure, CallbackTimeoutError if a time limit of the callback has passed."""
        ...


class BatchResult(Protocol[T]):
    """What `map` and `parallel` return. This protocol has only one method; the class with all methods is in concurrency/models.py."""

    @abstractmethod
    def get_results(self) -> list[T]:
        """The results of the branches that succeeded, in branch order."""
        ...


class DurableContext(Protocol):
    """The object on which a handler makes durable calls. The result of a call is recorded once, and a replay returns the recorded result.
    `name` is the name of the operation in the history. `config` None means the default configuration."""

    @abstractmethod
    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run a function, record its result and return it."""
        ...

    @abstractmethod
    def run_in_child_context(self, func: Callable[[DurableContext], T], name: str | None = None, config: ChildConfig[T] | None = None) -> T:
        """Run a function that makes durable calls, with a context of its own, as one operation; return its result."""
        ...

    @abstractmethod
    def map(
        self,
        inputs: Sequence[U],
        func: Callable[[DurableContext, U, int, Sequence[U]], T],
        name: str | None = None,
        config: MapConfig[U] | None = None,
    ) -> BatchResult[T]:
        """Run `func(context, item, index, inputs)` for the items of `inputs` concurrently, each in a branch of its own, until the
        completion config ends the batch."""
        ...

    @abstractmethod
    def parallel(
        self,
        functions: Sequence[Callable[[DurableContext], T] | ParallelBranch[T]],
        name: str | None = None,
        config: ParallelConfig | None = None,
    ) -> BatchResult[T]:
        """Run several functions concurrently, each in a branch of its own, until the completion config ends the batch."""
        ...

    @abstractmethod
    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Wait until `duration` has passed; the execution may be suspended meanwhile."""
        ...

    @abstractmethod
    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Callback[Any]:
        """Create a callback that an outside system answers, and return it; this does not wait for the answer."""
        ...


class LambdaContext(Protocol):
    """The context object of the Lambda runtime. A handler finds it in `context.lambda_context`, which is None if no Lambda runtime called
    the function."""

    aws_request_id: str
    log_group_name: str | None = None
    log_stream_name: str | None = None
    function_name: str | None = None
    memory_limit_in_mb: str | None = None
    function_version: str | None = None
    invoked_function_arn: str | None = None
    tenant_id: str | None = None
    client_context: Any | None = None
    identity: Any | None = None

    def get_remaining_time_in_millis(self) -> int: ...

    def log(self, msg: object) -> None: ...


@dataclass(frozen=True)
class DurableExecutionArn:
    """The function, the execution name and the invocation id in the ARN of an execution:
    `arn:…:function:<function>:<version>/durable-execution/<execution name>/<invocation id>`."""

    function_name: str
    execution_name: str
    invocation_id: str

    @classmethod
    def from_arn(cls, arn: str) -> DurableExecutionArn | None:
        """The parts of this ARN; None if it is not the ARN of a durable execution."""
        match = _ARN.fullmatch(arn)
        return cls(*match.groups()) if match else None
