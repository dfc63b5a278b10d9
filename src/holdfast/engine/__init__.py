"""engine — the service: what Lambda's backend does for durable functions.

Belongs: start, claim, checkpoint, timers, callbacks, settle, takeover, group commit, delivery of signals, upkeep.
Does not: SQL, user code, HTTP; handlers run in a Host, which the caller passes in.   May import: holdfast.store.seam,
holdfast.store.isolation (an entry that cannot be written does not stop the others), holdfast.model.
Start reading at engine.py, then invocations.py (the life of an invocation), scheduler.py and writer.py. The other
parts can be read in any order.
"""
