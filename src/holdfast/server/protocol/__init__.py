"""server.protocol — the worker protocol over HTTP: workers, runs and their events, approvals and links to them, queues, restarts, costs,
artifacts.

Belongs: the routes under /v1 with their policies, their handlers, and the replies of the protocol (worker_replies.py).
Does not: what a request means (holdfast.workers), how a request is admitted, limited and answered (holdfast.web).
May import: holdfast.web, and the packages below it.
Start reading at routes.py, then workers.py.
"""
