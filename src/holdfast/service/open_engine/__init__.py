"""open_engine — the engine that `holdfast.open` gives to a program, and its methods.

open_engine.py         the methods for async programs; start here
queue_verbs.py         those that enqueue
restart_verbs.py       those that do work again
open_execution.py      one execution of an open engine
blocking_engine.py     the same methods without `await`; loop_thread.py runs them
registered.py          the functions of a process, as the engine registers them
interpreter_tuning.py  tunes Python for a process that runs an engine

Belongs: what a program calls on an engine in its own process.   Does not: opening it (engines.py), a store without an engine (client.py).
May import: every room of service, settings.py, and packages below service.
"""
