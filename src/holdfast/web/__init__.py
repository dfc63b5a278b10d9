"""web — the HTTP kit of every API that the server offers.

Belongs: the listener and its limits, the app, routes with their policies, groups of routes with the format of their errors, requests,
replies, event streams, who may ask (auth/). Also what several of these APIs share: the caller as runs know it (caller.py), forms from JSON
Schemas (form_fields.py).
Does not: decide what a request means, know any one API: each brings its routes and their group.
May import: holdfast.operator (a folder of the operator), holdfast.workers.run_lookup (the type of the caller), holdfast.store,
holdfast.files, holdfast.model, Starlette and uvicorn.
Start reading at app.py, then policy.py and auth/gate.py. docs/internals/http.md draws the way of a request.
"""
