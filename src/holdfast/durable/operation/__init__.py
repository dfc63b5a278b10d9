"""durable.operation — one file for each operation, all of one shape: look, record, run, and return what a replay returns.

Belongs: plans.   Does not: threads, loops, user-facing signatures (context.py).   May import: holdfast.durable, holdfast.model.
Start reading at wait.py, then step.py.
"""
