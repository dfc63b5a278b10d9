"""hosts — where code runs.

Belongs: ways to run a handler and to report its outcome.
Does not: claims, checkpoints, timers (the engine's); what a durable call means (durable's).   May import: holdfast.durable, holdfast.model.
Start reading at inline.py.
"""
