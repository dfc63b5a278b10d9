"""store.sqlite — the embedded store: one file, any number of processes of one machine.

Belongs: the schema, the SQL, sharing the file fairly.
Does not: decide what a write means.   May import: holdfast.model, holdfast.store (its neutral half), sqlite3.   Start reading at store.py.
"""
