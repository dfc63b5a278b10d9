"""web — the HTTP kit of every API that the server offers.

Belongs: the listener and its limits, the app, routes with their policies, requests, replies, errors, event streams, who may ask (auth/).
Also what several of these APIs share: the caller as runs know it (asker.py), the replies of the worker protocol (worker_replies.py), forms
from JSON Schemas (form_fields.py), errors as pages (page_errors.py).
Does not: decide what a request means.   May import: holdfast.service and what stands below it, Starlette and uvicorn.
Start reading at app.py, then policy.py and auth/gate.py. docs/internals/http.md draws the way of a request.
"""
