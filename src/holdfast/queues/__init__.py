"""queues — the queues of a store for users: how they are declared, what an operator sets, who waits in them, and how they are filled.

declarations.py   `holdfast.Queue`, and `[queues.NAME]` of holdfast.toml; start here
store_queues.py   shows, changes and fills the queues of a store, without an engine
setting_names.py  the names and values of settings, as the command line and HTTP give them
places.py         the place of one execution in its queue
pushes.py         enqueues many executions, a thousand in each commit
redrives.py       starts parked executions again
documents.py      queues, lanes and parked executions as JSON objects

Belongs: what a person or a program asks of a queue.   Does not: which execution is admitted next (holdfast.engine and holdfast.store); the
methods of an open engine that enqueue (service/open_engine/queue_verbs.py).   May import: packages below it.
"""
