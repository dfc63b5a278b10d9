"""service — what users call: `holdfast.open` and the client of a store. It joins the layers below.

engines.py          `holdfast.open`: puts a store, a host and an engine together; start here
settings.py         the settings of an engine; drain.py lets its process end
client.py           a store without an engine; store_approvals.py has its approvals, store_runs.py its runs
opened_store.py     a store alone, open for a block of code
worker_pushes.py    enqueues a run of a worker for each line of a file
open_engine/        the opened engine and its methods
runtimes/           workers and pipelines, connected to an engine

Belongs: opening, wiring, and the verbs of users. It builds the objects of the layers below. Above it, only lambda_api/serving.py
opens a store, too: it builds a server's engine.
Does not: what a verb does (holdfast.queues, schedules, restarts, costs, exports, descriptions), what the operator has set
(holdfast.operator), terminals, HTTP.   May import: everything below it. Its modules and folders import each other only downwards
(pyproject.toml has their order).
"""
