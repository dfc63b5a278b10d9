"""store.postgres — the store of a fleet: one database, any number of processes on any number of machines.

Belongs: the schema, the SQL, one statement per batch that writes all of it or nothing, the connections and what happens when one is lost.
Does not: decide what a write means.   May import: holdfast.model, holdfast.store (its neutral half), psycopg.
Start reading at store.py.
"""
