"""workers — one request, end to end.

Belongs: accepting a request (service.py, accept.py, child_requests.py, queued_runs.py); running its body in a host (run.py, attempt.py,
packages.py); the tool gateway (gateway.py), with intents and receipts (call_records.py, calls.py, inherited_calls.py), calls whose answer
was lost (lost_calls.py) and money (budgets.py, counters.py, ledger.py); decisions of people (asked_persons.py, approvals.py, deciders.py,
votes.py, links.py); artifacts (artifacts.py); events (events.py, followed_runs.py); the response (outputs.py, logs.py); what a caller may
read of all this (run_lookup.py). `body/` runs inside the sandbox, `tools/` has the tools, `storage/` the bytes of artifacts.
Does not: reading pages (contract), jails (hosts), storage and claims (engine, store), HTTP.
May import: holdfast.hosts, holdfast.contract, holdfast.signals, holdfast.durable, holdfast.engine, holdfast.store, holdfast.model;
`tools/` and `storage/` also holdfast.files.
Start reading at service.py (accept), then run.py, attempt.py and gateway.py; tools/seam.py for the tools.
"""
