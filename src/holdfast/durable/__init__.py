"""durable — what authors of durable functions use: contexts whose calls are recorded once; a replay returns the recorded results.

Belongs: the modules and names of AWS's SDK, one durable call per file (`operation/`), retries, serdes, the two drivers (`async_driver`,
`blocking_driver`), plugins (`hooks/`), functions outside an engine's process (`remote/`), and the `journal` for workers and pipelines.
Does not: engines, stores, HTTP; a Port reads and writes the state.   May import: holdfast.model.
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
