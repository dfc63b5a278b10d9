"""signals — what goes out: status events and their delivery; logs, metrics and traces of workers; metrics and traces of functions.

Belongs: the event of a signal, event patterns, sinks (each is a subscriber for `holdfast.open(subscribers=…)`), the broadcaster; what is
seen of a run and its observers (observing.py), with the log, the metrics and the traces that are such observers; those of functions
(function_metrics.py, function_traces.py), which are observers of an engine (model.ports).
Does not: HTTP servers; who delivers, in what order and how often again (engine.outbox does); when something is seen
(workers.observing, engine.observing).
May import: holdfast.model; httpx, boto3, prometheus_client and opentelemetry only inside the functions that need them.
Start reading at event.py, then sinks.py; for workers at observing.py, for functions at function_metrics.py.
"""
