"""signals — what Holdfast reports to other systems: events about changes of status; logs, metrics and traces of workers; metrics and traces
of functions.

Belongs: the event of a signal (event.py) and event patterns (patterns.py); sinks, each a subscriber for `holdfast.open(subscribers=…)`
(sinks.py, webhook.py, eventbridge.py, sink_addresses.py); the broadcaster for live listeners (broadcast.py); what an observer sees of a
worker's run (observers.py), and the observers worker_logs.py, metrics.py and tracing.py; the observers of an engine (model.ports):
function_metrics.py, queue_metrics.py, schedule_metrics.py and function_traces.py. They share series.py (numbers for Prometheus), spans.py
and span_ids.py (OpenTelemetry), traceparent.py, lines.py (files of JSON lines) and signatures.py (of webhooks).
Does not: HTTP servers; delivery, its order and its retries (engine.outbox does); calling the observers (workers and engine do).
May import: holdfast.model, holdfast.files; httpx, boto3, prometheus_client and opentelemetry only inside the functions that need them
(span_ids.py is itself imported inside a function).
Start reading at event.py, then sinks.py; for workers at observers.py, for functions at function_metrics.py.
Users import the names in `__all__` from here. A name is imported when it is first used, because a program without sinks does not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.model.ports import Observer as Observer
    from holdfast.signals.event import event_of as event_of
    from holdfast.signals.eventbridge import EventBridge as EventBridge
    from holdfast.signals.function_metrics import FunctionMetrics as FunctionMetrics
    from holdfast.signals.signatures import new_secret as new_secret
    from holdfast.signals.signatures import verify as verify
    from holdfast.signals.sink_addresses import read_sinks as read_sinks
    from holdfast.signals.sinks import JsonLines as JsonLines
    from holdfast.signals.webhook import Webhook as Webhook

_WHERE = {
    "EventBridge": "holdfast.signals.eventbridge",
    "FunctionMetrics": "holdfast.signals.function_metrics",
    "JsonLines": "holdfast.signals.sinks",
    "Observer": "holdfast.model.ports",
    "Webhook": "holdfast.signals.webhook",
    "event_of": "holdfast.signals.event",
    "new_secret": "holdfast.signals.signatures",
    "read_sinks": "holdfast.signals.sink_addresses",
    "verify": "holdfast.signals.signatures",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.signals' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
