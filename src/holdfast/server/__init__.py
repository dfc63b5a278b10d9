"""server — what a server offers besides the Lambda API: the worker protocol, schedules, the stream of signals, metrics.

Belongs: routes of these APIs, and the subscribers that a server's signals go to.
Does not: what a request means (holdfast.workers, holdfast.signals), how HTTP is spoken (holdfast.web), the Lambda API (lambda_api).
May import: holdfast.lambda_api, holdfast.web and what stands below them.   Start reading at protocol/routes.py, then events.py.
"""
