"""signals — what Holdfast reports to other systems: events about changes of status; logs, metrics and traces of workers; metrics and traces
of functions.

Belongs: the event of a signal (event.py) and event patterns (patterns.py); sinks, each a subscriber for `holdfast.open(subscribers=…)`
(sinks.py, webhook.py, eventbridge.py, sink_addresses.py); the broadcaster for live listeners (broadcast.py); what an observer sees of a
worker's run (observers.py), and the observers worker_logs.py, metrics.py and tracing.py; the observers of an engine (model.ports):
function_metrics.py, queue_metrics.py, schedule_metrics.py and function_traces.py. They share series.py (numbers for Prometheus), spans.py
and span_ids.py (OpenTelemetry), traceparent.py, lines.py (files of JSON lines) and signatures.py (of webhooks).
Does not: HTTP servers; delivery, its order and its retries (engine.outbox does); calling the observers (workers and engine do).
May import: holdfast.model; httpx, boto3, prometheus_client and opentelemetry only inside the functions that need them.
Start reading at event.py, then sinks.py; for workers at observers.py, for functions at function_metrics.py.
"""
