"""web — the HTTP kit: what every surface over HTTP uses.

Belongs: the listener and its limits, routes, requests, replies, errors, who may ask (auth/).   Does not: know any service that is offered.
May import: holdfast.service and what stands below it.   Start reading at app.py, then auth/protecting.py.
"""
