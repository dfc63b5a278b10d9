"""web — the HTTP kit of every API that the server offers.

Belongs: the listener and its limits, the app, routes with their policies, requests, replies, errors, event streams, who may ask (auth/).
Does not: know any service that is offered.   May import: holdfast.service and what it may import, Starlette and uvicorn.
Start reading at app.py, then policy.py and auth/gate.py. docs/internals/http.md draws the way of a request.
"""
