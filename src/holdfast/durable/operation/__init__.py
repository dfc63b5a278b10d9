"""durable.operation — one operation, one file, one shape: look, record, run, and return what a replay would return.

Belongs: plans.   Does not: threads, loops, user-facing signatures (context.py).   May import: holdfast.durable, holdfast.model.
Start reading at wait.py, then step.py.
"""
