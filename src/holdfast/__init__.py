"""holdfast: bounded AI workers, and durable functions that continue after a crash.

The names that users import. The module of a name is imported when the name is used for the first time, so `import holdfast` is fast.

Each package here is one layer; its docstring says what is in it. Start reading at model/operations.py (what is recorded), then
durable/plan.py (what authors call), engine/engine.py (what runs it) and service/engines.py (`holdfast.open`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.contract.refusals import InvalidRequest as InvalidRequest
    from holdfast.contract.refusals import Overloaded as Overloaded
    from holdfast.descriptions.history import HistoryEvent as HistoryEvent
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
    from holdfast.exports.replaying import Replayed as Replayed
    from holdfast.exports.replaying import replay as replay
    from holdfast.hosts.toolhost.tool_call import ToolCall as ToolCall
    from holdfast.model.audit import Actor as Actor
    from holdfast.model.audit import NoteFilter as NoteFilter
    from holdfast.model.audit import NoteKind as NoteKind
    from holdfast.model.browse_errors import ReadTooLong as ReadTooLong
    from holdfast.model.browse_errors import TooManyViews as TooManyViews
    from holdfast.model.clock import Clock as Clock
    from holdfast.model.errors import AccessRefused as AccessRefused
    from holdfast.model.errors import CallbackClosed as CallbackClosed
    from holdfast.model.errors import CallbackNotFound as CallbackNotFound
    from holdfast.model.errors import CodecFailed as CodecFailed
    from holdfast.model.errors import DeliveryFailed as DeliveryFailed
    from holdfast.model.errors import EngineClosed as EngineClosed
    from holdfast.model.errors import ExecutionAlreadyStarted as ExecutionAlreadyStarted
    from holdfast.model.errors import ExecutionFailed as ExecutionFailed
    from holdfast.model.errors import ExecutionNotFound as ExecutionNotFound
    from holdfast.model.errors import ExecutionQuarantined as ExecutionQuarantined
    from holdfast.model.errors import ExecutionStopped as ExecutionStopped
    from holdfast.model.errors import ExecutionTimedOut as ExecutionTimedOut
    from holdfast.model.errors import ExportInvalid as ExportInvalid
    from holdfast.model.errors import ExtraMissing as ExtraMissing
    from holdfast.model.errors import Fatal as Fatal
    from holdfast.model.errors import FunctionNotFound as FunctionNotFound
    from holdfast.model.errors import HoldfastError as HoldfastError
    from holdfast.model.errors import InvalidParameter as InvalidParameter
    from holdfast.model.errors import PatternInvalid as PatternInvalid
    from holdfast.model.errors import PayloadNotJson as PayloadNotJson
    from holdfast.model.errors import PayloadTooLarge as PayloadTooLarge
    from holdfast.model.errors import Rejected as Rejected
    from holdfast.model.errors import Retryable as Retryable
    from holdfast.model.errors import RowDamaged as RowDamaged
    from holdfast.model.errors import RunUnavailable as RunUnavailable
    from holdfast.model.errors import StoreNotFound as StoreNotFound
    from holdfast.model.errors import Unsuccessful as Unsuccessful
    from holdfast.model.execution import ExecutionStatus as ExecutionStatus
    from holdfast.model.payloads import PayloadCodec as PayloadCodec
    from holdfast.model.places import Only as Only
    from holdfast.model.queue_errors import QueueBusy as QueueBusy
    from holdfast.model.queue_errors import QueueFull as QueueFull
    from holdfast.model.queue_errors import QueueNotFound as QueueNotFound
    from holdfast.model.queues import Limits as Limits
    from holdfast.model.restart_errors import NodeNotFound as NodeNotFound
    from holdfast.model.restart_errors import OperationNotFound as OperationNotFound
    from holdfast.model.restart_errors import RestartRefused as RestartRefused
    from holdfast.model.schedule_errors import ScheduleChanged as ScheduleChanged
    from holdfast.model.schedule_errors import ScheduleInvalid as ScheduleInvalid
    from holdfast.model.schedule_errors import ScheduleNotFound as ScheduleNotFound
    from holdfast.model.signals import StatusSignal as StatusSignal
    from holdfast.operator.holdfast_toml import read_operator as read_operator
    from holdfast.pipelines.builder.pipeline import Pipeline as Pipeline
    from holdfast.pipelines.graph.refusals import PipelineInvalid as PipelineInvalid
    from holdfast.queues.declarations import Queue as Queue
    from holdfast.schedules.declarations import Schedule as Schedule
    from holdfast.service.client import Client as Client
    from holdfast.service.engines import BlockingEngine as BlockingEngine
    from holdfast.service.engines import BlockingExecution as BlockingExecution
    from holdfast.service.engines import OpenEngine as OpenEngine
    from holdfast.service.engines import open as open
    from holdfast.service.open_engine.open_execution import OpenExecution as OpenExecution
    from holdfast.service.runtimes.worker_runtime import WorkerSettings as WorkerSettings
    from holdfast.service.settings import Settings as Settings
    from holdfast.store.encryption import AesGcm as AesGcm
    from holdfast.store.seam import Filter as Filter
    from holdfast.workers.approvals import ApprovalNotFound as ApprovalNotFound
    from holdfast.workers.body.context import WorkerContext as WorkerContext
    from holdfast.workers.body.errors import WorkerError as WorkerError
    from holdfast.workers.decorator import worker as worker
    from holdfast.workers.tools.decorator import tool as tool

_WHERE = {
    "AccessRefused": "holdfast.model.errors",
    "Actor": "holdfast.model.audit",
    "AesGcm": "holdfast.store.encryption",
    "ApprovalNotFound": "holdfast.workers.approvals",
    "AsyncDurableContext": "holdfast.durable",
    "BlockingEngine": "holdfast.service.engines",
    "BlockingExecution": "holdfast.service.engines",
    "CallbackClosed": "holdfast.model.errors",
    "CallbackConfig": "holdfast.durable.config",
    "CallbackNotFound": "holdfast.model.errors",
    "Client": "holdfast.service.client",
    "Clock": "holdfast.model.clock",
    "CodecFailed": "holdfast.model.errors",
    "DeliveryFailed": "holdfast.model.errors",
    "DurableContext": "holdfast.durable",
    "Duration": "holdfast.durable.config",
    "EngineClosed": "holdfast.model.errors",
    "EnqueueRefused": "holdfast.durable.enqueue_refusal",
    "ExecutionAlreadyStarted": "holdfast.model.errors",
    "ExecutionFailed": "holdfast.model.errors",
    "ExecutionNotFound": "holdfast.model.errors",
    "ExecutionQuarantined": "holdfast.model.errors",
    "ExecutionStatus": "holdfast.model.execution",
    "ExecutionStopped": "holdfast.model.errors",
    "ExecutionTimedOut": "holdfast.model.errors",
    "ExportInvalid": "holdfast.model.errors",
    "ExtraMissing": "holdfast.model.errors",
    "Fatal": "holdfast.model.errors",
    "Filter": "holdfast.store.seam",
    "FunctionNotFound": "holdfast.model.errors",
    "HistoryEvent": "holdfast.descriptions.history",
    "HoldfastError": "holdfast.model.errors",
    "InvalidParameter": "holdfast.model.errors",
    "InvalidRequest": "holdfast.contract.refusals",
    "InvokeConfig": "holdfast.durable.config",
    "Limits": "holdfast.model.queues",
    "MapConfig": "holdfast.durable.config",
    "NodeNotFound": "holdfast.model.restart_errors",
    "OperationNotFound": "holdfast.model.restart_errors",
    "NoteFilter": "holdfast.model.audit",
    "NoteKind": "holdfast.model.audit",
    "Only": "holdfast.model.places",
    "OpenEngine": "holdfast.service.engines",
    "OpenExecution": "holdfast.service.open_engine.open_execution",
    "Overloaded": "holdfast.contract.refusals",
    "ParallelConfig": "holdfast.durable.config",
    "PatternInvalid": "holdfast.model.errors",
    "PayloadCodec": "holdfast.model.payloads",
    "PayloadNotJson": "holdfast.model.errors",
    "PayloadTooLarge": "holdfast.model.errors",
    "Pipeline": "holdfast.pipelines.builder.pipeline",
    "PipelineInvalid": "holdfast.pipelines.graph.refusals",
    "Queue": "holdfast.queues.declarations",
    "QueueBusy": "holdfast.model.queue_errors",
    "QueueFull": "holdfast.model.queue_errors",
    "QueueNotFound": "holdfast.model.queue_errors",
    "ReadTooLong": "holdfast.model.browse_errors",
    "Rejected": "holdfast.model.errors",
    "Replayed": "holdfast.exports.replaying",
    "RestartRefused": "holdfast.model.restart_errors",
    "Retryable": "holdfast.model.errors",
    "RowDamaged": "holdfast.model.errors",
    "RunResponse": "holdfast.durable.run_response",
    "RunUnavailable": "holdfast.model.errors",
    "Schedule": "holdfast.schedules.declarations",
    "ScheduleChanged": "holdfast.model.schedule_errors",
    "ScheduleInvalid": "holdfast.model.schedule_errors",
    "ScheduleNotFound": "holdfast.model.schedule_errors",
    "Settings": "holdfast.service.settings",
    "StatusSignal": "holdfast.model.signals",
    "StepConfig": "holdfast.durable.config",
    "StepContext": "holdfast.durable",
    "StoreNotFound": "holdfast.model.errors",
    "TooManyViews": "holdfast.model.browse_errors",
    "ToolCall": "holdfast.hosts.toolhost.tool_call",
    "Unsuccessful": "holdfast.model.errors",
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
    "read_operator": "holdfast.operator.holdfast_toml",
    "replay": "holdfast.exports.replaying",
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
