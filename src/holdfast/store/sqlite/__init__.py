"""store.sqlite — the embedded store: one file, any number of processes of one machine.

Belongs: the schema, the SQL, one transaction per batch (store.py), fair turns to write (turnstile.py), which processes have
the file open (presence.py), what an operator does with the file (maintenance.py).
Does not: decide what a write means.   May import: holdfast.model, holdfast.files, holdfast.store (its neutral half), sqlite3.
Start reading at store.py.
"""
