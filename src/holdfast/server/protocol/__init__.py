"""protocol — the worker protocol over HTTP: workers, runs, their events, approvals, artifacts, metrics.

Belongs: the routes under /v1 and /metrics, their limits, and answers in the protocol's own shape, errors too.
Does not: what a request means (holdfast.workers), who may ask (holdfast.web.auth).
May import: holdfast.workers, holdfast.contract, and how the server reads requests.   Start reading at app.py, then workers.py.
"""
