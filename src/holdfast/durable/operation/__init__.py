"""durable.operation — one file for each durable call, and batch.py, which `map` and `parallel` share. A call is a plan (plan.py), and all
plans have the same form: look at the history, record, run user code, and return the value that a replay returns.

Each file but batch.py also has the function that a method of the context calls (`step_call`, `wait_call`). That function checks the
arguments, takes the identity of the call at once, and makes the plan, which a driver runs later.

Belongs: plans.   Does not: threads, loops, the methods that authors call (context.py).   May import: holdfast.durable, holdfast.model.
Start reading at wait.py, then step.py.
"""
