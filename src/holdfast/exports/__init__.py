"""exports — one execution as a JSON document: written, read and replayed.

exporting.py  makes the document; start here
importing.py  reads a document, which is untrusted input, and makes rows for a store
replaying.py  runs today's code on the records of a document, without a store

Belongs: the document of a durable execution.   Does not: replays of workers' runs (service/runtimes/worker_replays.py), backups of a store
(holdfast.store).   May import: holdfast.descriptions, and packages below it.
"""
