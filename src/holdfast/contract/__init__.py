"""contract — promises, pure: a worker.md page becomes one frozen Contract, and values are checked against it.

Belongs: reading pages, the Contract and its limits, schema checks, the request and the response, the one table of codes.
Does not: run anything, read files, touch the network or the clock.   May import: holdfast.model, msgspec, jsonschema-rs.
Start reading at terms.py (what a contract says), then reading.py (how a page becomes one); codes.py, checking.py, limits.py and
protocol.py stand alone.
"""
