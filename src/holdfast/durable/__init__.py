"""durable — what authors write: contexts whose calls are recorded once and replayed ever after.

Belongs: the official SDK's names, one operation per file, retries, serdes, the two drivers.
Does not: engines, stores, HTTP; state comes and goes through a Port.   May import: holdfast.model.
Start reading at plan.py, then operation/step.py, then context.py.
"""

from __future__ import annotations

from holdfast.durable.concurrency.models import BatchCompletionError, BatchResult
from holdfast.durable.config import (
    BatchItemStatus,
    CompletionDecision,
    CompletionItemStatus,
    CompletionOutcome,
    CompletionStatus,
    ParallelBranch,
    complete_batch,
    continue_batch,
)
from holdfast.durable.context import (
    AsyncDurableContext,
    DurableContext,
    durable_parallel_branch,
    durable_step,
    durable_wait_for_callback,
    durable_with_child_context,
)
from holdfast.durable.exceptions import (
    CallbackError,
    CallbackExternalError,
    CallbackSubmitterError,
    CallbackTimeoutError,
    ChildContextError,
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
)
from holdfast.durable.execution import durable_execution
from holdfast.durable.retries import WithRetryConfig, with_retry
from holdfast.durable.types import StepContext

__all__ = [
    "AsyncDurableContext",
    "BatchCompletionError",
    "BatchItemStatus",
    "BatchResult",
    "CallbackError",
    "CallbackExternalError",
    "CallbackSubmitterError",
    "CallbackTimeoutError",
    "ChildContextError",
    "CompletionDecision",
    "CompletionItemStatus",
    "CompletionOutcome",
    "CompletionStatus",
    "DurableContext",
    "DurableExecutionsError",
    "DurableOperationError",
    "ExecutionError",
    "InvocationError",
    "InvokeError",
    "ParallelBranch",
    "PluginLoadError",
    "RetryableSerDesError",
    "SerDesError",
    "StepContext",
    "StepError",
    "ValidationError",
    "WaitForConditionError",
    "WithRetryConfig",
    "complete_batch",
    "continue_batch",
    "durable_execution",
    "durable_parallel_branch",
    "durable_step",
    "durable_wait_for_callback",
    "durable_with_child_context",
    "with_retry",
]
