"""hosts — where code runs.

Belongs: ways to run a handler and to report its outcome. Its packages run other code in processes of their own: `sandbox/` the bodies of
workers, `toolhost/` the tools of authors, `evaluator/` slow checks of values.
Does not: claims, checkpoints, timers (the engine's); what a durable call means (durable's).   May import: holdfast.durable, holdfast.model;
its packages also holdfast.contract and holdfast.files, as each of them says. Start reading at inline.py.
"""
