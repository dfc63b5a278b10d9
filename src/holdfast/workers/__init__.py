"""workers — one request, end to end.

Belongs: accepting a request, running its body in a host, the tool gateway, budgets, receipts, approvals, artifacts, the response.
`body/` runs inside the sandbox, `tools/` has the tools, `storage/` the bytes of artifacts.
Does not: reading pages (contract), jails (hosts), storage and claims (engine, store), HTTP.
May import: holdfast.hosts, holdfast.contract, holdfast.signals, holdfast.durable, holdfast.engine, holdfast.store, holdfast.model;
`tools/` and `storage/` also holdfast.files.
Start reading at service.py (accept), then run.py, attempt.py and gateway.py; tools/seam.py for the tools.
"""
