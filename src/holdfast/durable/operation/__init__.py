"""durable.operation — one file for each durable call. Each is a plan (plan.py) of the same form: look at the history, record, run user
code, and return the value that a replay returns.

Belongs: plans.   Does not: threads, loops, user-facing signatures (context.py).   May import: holdfast.durable, holdfast.model.
Start reading at wait.py, then step.py.
"""
