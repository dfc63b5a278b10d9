"""sandbox — hostile code in a jail made of what the kernel offers.

Belongs: the stub, its keepers and the locks (inside/); spares, attempts, frames, limits, the confirmed death; snapshots of code.
Does not: contracts, tools, receipts, what a frame means.   May import: holdfast.model, msgspec.
Start reading at sandbox.py, then attempt.py; what happens in the other processes starts at inside/stub.py.
"""
