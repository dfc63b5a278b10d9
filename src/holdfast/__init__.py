"""holdfast: bounded AI workers, and durable functions that continue after a crash.

The names that users import. The module of a name is imported when the name is used for the first time, so `import holdfast` is fast.

Each package here is one layer; its docstring says what is in it. Start reading at model/operations.py (what is recorded), then
durable/plan.py (what authors call), engine/engine.py (what runs it) and service/engines.py (`holdfast.open`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.durable import AsyncDurableContext as AsyncDurableContext
    from holdfast.durable import DurableContext as DurableContext
    from holdfast.durable import StepContext as StepContext
    from holdfast.durable import durable_execution as durable_execution
    from holdfast.durable import durable_parallel_branch as durable_parallel_branch
    from holdfast.durable import durable_step as durable_step
    from holdfast.durable import durable_wait_for_callback as durable_wait_for_callback
    from holdfast.durable import durable_with_child_context as durable_with_child_context
    from holdfast.durable import with_retry as with_retry
    from holdfast.durable.config import CallbackConfig as CallbackConfig
    from holdfast.durable.config import Duration as Duration
    from holdfast.durable.config import InvokeConfig as InvokeConfig
    from holdfast.durable.config import MapConfig as MapConfig
    from holdfast.durable.config import ParallelConfig as ParallelConfig
    from holdfast.durable.config import StepConfig as StepConfig
    from holdfast.durable.enqueue_refusal import EnqueueRefused as EnqueueRefused
    from holdfast.durable.plain import plain_function as plain_function
    from holdfast.durable.run_response import RunResponse as RunResponse
    from holdfast.durable.run_response import WorkerFailed as WorkerFailed
    from holdfast.hosts.toolhost.tool_call import ToolCall as ToolCall
    from holdfast.model.audit import NoteFilter as NoteFilter
    from holdfast.model.errors import HoldfastError as HoldfastError
    from holdfast.model.execution import ExecutionStatus as ExecutionStatus
    from holdfast.model.payloads import PayloadCodec as PayloadCodec
    from holdfast.model.queues import Limits as Limits
    from holdfast.model.signals import StatusSignal as StatusSignal
    from holdfast.pipelines.builder.pipeline import Pipeline as Pipeline
    from holdfast.service.client import Client as Client
    from holdfast.service.costs.reports import CostQuestion as CostQuestion
    from holdfast.service.descriptions.history import HistoryEvent as HistoryEvent
    from holdfast.service.engines import BlockingEngine as BlockingEngine
    from holdfast.service.engines import BlockingExecution as BlockingExecution
    from holdfast.service.engines import OpenEngine as OpenEngine
    from holdfast.service.engines import open as open
    from holdfast.service.exports.replaying import Replayed as Replayed
    from holdfast.service.exports.replaying import replay as replay
    from holdfast.service.open_engine.open_execution import OpenExecution as OpenExecution
    from holdfast.service.operator.holdfast_toml import read_operator as read_operator
    from holdfast.service.queues.declarations import Queue as Queue
    from holdfast.service.runtimes.worker_runtime import WorkerSettings as WorkerSettings
    from holdfast.service.schedules.declarations import Schedule as Schedule
    from holdfast.service.settings import Settings as Settings
    from holdfast.store.encryption import AesGcm as AesGcm
    from holdfast.store.seam import Filter as Filter
    from holdfast.workers.body.context import WorkerContext as WorkerContext
    from holdfast.workers.body.errors import WorkerError as WorkerError
    from holdfast.workers.decorator import worker as worker
    from holdfast.workers.tools.decorator import tool as tool

_WHERE = {
    "AesGcm": "holdfast.store.encryption",
    "AsyncDurableContext": "holdfast.durable",
    "BlockingEngine": "holdfast.service.engines",
    "BlockingExecution": "holdfast.service.engines",
    "CallbackConfig": "holdfast.durable.config",
    "Client": "holdfast.service.client",
    "CostQuestion": "holdfast.service.costs.reports",
    "Duration": "holdfast.durable.config",
    "DurableContext": "holdfast.durable",
    "EnqueueRefused": "holdfast.durable.enqueue_refusal",
    "ExecutionStatus": "holdfast.model.execution",
    "Filter": "holdfast.store.seam",
    "HistoryEvent": "holdfast.service.descriptions.history",
    "HoldfastError": "holdfast.model.errors",
    "InvokeConfig": "holdfast.durable.config",
    "Limits": "holdfast.model.queues",
    "MapConfig": "holdfast.durable.config",
    "NoteFilter": "holdfast.model.audit",
    "OpenEngine": "holdfast.service.engines",
    "OpenExecution": "holdfast.service.open_engine.open_execution",
    "ParallelConfig": "holdfast.durable.config",
    "PayloadCodec": "holdfast.model.payloads",
    "Pipeline": "holdfast.pipelines.builder.pipeline",
    "Queue": "holdfast.service.queues.declarations",
    "Replayed": "holdfast.service.exports.replaying",
    "RunResponse": "holdfast.durable.run_response",
    "Schedule": "holdfast.service.schedules.declarations",
    "Settings": "holdfast.service.settings",
    "StatusSignal": "holdfast.model.signals",
    "StepConfig": "holdfast.durable.config",
    "StepContext": "holdfast.durable",
    "ToolCall": "holdfast.hosts.toolhost.tool_call",
    "WorkerContext": "holdfast.workers.body.context",
    "WorkerError": "holdfast.workers.body.errors",
    "WorkerFailed": "holdfast.durable.run_response",
    "WorkerSettings": "holdfast.service.runtimes.worker_runtime",
    "durable_execution": "holdfast.durable",
    "durable_parallel_branch": "holdfast.durable",
    "durable_step": "holdfast.durable",
    "durable_wait_for_callback": "holdfast.durable",
    "durable_with_child_context": "holdfast.durable",
    "open": "holdfast.service.engines",
    "plain_function": "holdfast.durable.plain",
    "read_operator": "holdfast.service.operator.holdfast_toml",
    "replay": "holdfast.service.exports.replaying",
    "tool": "holdfast.workers.tools.decorator",
    "with_retry": "holdfast.durable",
    "worker": "holdfast.workers.decorator",
}

__all__ = [*(name for name in _WHERE if name != "open")]  # `from holdfast import *` must not replace the builtin `open`


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(_WHERE)
