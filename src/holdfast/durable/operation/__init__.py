"""durable.operation — one file for each durable call. Each is a plan (plan.py) of the same form: look at the history, record, run user
code, and return the value that a replay returns.

Each module also has the call itself (`step_call`, `wait_call`): it checks the arguments, takes the identity of the call at once, and makes
the plan, which a driver runs later.

Belongs: plans.   Does not: threads, loops, the methods that authors call (context.py).   May import: holdfast.durable, holdfast.model.
Start reading at wait.py, then step.py.
"""
