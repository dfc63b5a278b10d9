"""store.sqlite — the embedded store: one file, any number of processes of one machine.

Belongs: the schema, the SQL, turning rows into values and back, sharing the file fairly.
Does not: decide what a write means.   May import: holdfast.model, holdfast.store.seam, sqlite3.   Start reading at store.py.
"""
