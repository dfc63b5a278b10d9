"""store.postgres — the store of a fleet: one database, any number of processes on any number of machines.

Belongs: the schema, the SQL, the statement that writes the rows of a batch (batch_statement.py), the connections (session.py), what happens
when a connection is lost (doubts.py), what an operator does with the schema (maintenance.py).
Does not: decide what a write means.   May import: holdfast.model, holdfast.store (its neutral half), msgspec, psycopg.
Start reading at store.py.
"""
