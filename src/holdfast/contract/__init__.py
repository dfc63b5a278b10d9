"""contract — what a worker promises: reads a worker.md page as one immutable Contract, and checks values against it. No side effects.

Belongs: the Contract and its parts (terms.py); how a page becomes one (page_reader.py, with page.py, spec.py, words.py, prose.py,
jsonblocks.py, schemas.py, bounds.py, notes.py); schema checks and their costs (checking.py, costs.py, groups.py, schema_references.py,
patterns.py); rules and merges of values (rules.py, merges.py, with paths.py and equality.py); values without their secrets
(redaction.py); the request and the response (protocol.py); a run's limits (limits.py); the table of codes (codes.py); the errors of this
layer (refusals.py).
Does not: run anything, read files, touch the network or the clock.   May import: holdfast.model, msgspec, jsonschema-rs.
Start reading at terms.py, then page_reader.py; codes.py, checking.py, limits.py and protocol.py stand alone.
"""
