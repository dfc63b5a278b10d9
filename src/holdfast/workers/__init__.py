"""workers — one request, end to end.

Belongs: accepting a request, running it in a host, the tool gateway, budgets, receipts, approvals, artifacts, the response.
Does not: reading pages (contract), jails (hosts), storage and claims (engine, store), HTTP.
May import: holdfast.hosts, holdfast.contract, holdfast.signals, holdfast.durable, holdfast.engine, holdfast.store, holdfast.model.
Start reading at tools/seam.py for the tools.
"""
