"""model — the words: pure data and rules.

Belongs: ids, operations and what an update may do to them, executions and their life, history, errors, the clock, the ports.
Does not: I/O, asyncio, SQL, user code.   May import: nothing of Holdfast's.   Start reading at operations.py, then transitions.py.
"""
