"""signals — what goes out: status events, their filters, and their delivery to webhooks, files, EventBridge and live listeners.

Belongs: the event of a signal, event patterns, sinks (each is a subscriber for `holdfast.open(subscribers=…)`), the broadcaster.
Does not: HTTP servers; who delivers, in what order and how often again (engine.outbox does).
May import: holdfast.model; httpx and boto3 only inside the functions that need them.
Start reading at event.py, then sinks.py.
"""
