"""sandbox — runs hostile code in a jail that is made of kernel features (namespaces, seccomp, Landlock, limits).

Belongs: the stub, its keepers and the locks (inside/); spares, attempts, frames, limits; the guarantee that an ended body is dead;
snapshots of code.
Does not: contracts, tools, receipts, the meaning of frames.   May import: holdfast.model, holdfast.files,
holdfast.contract.refusals, holdfast.hosts, msgspec.
Start reading at sandbox.py, then jailed_body.py. The code of the other processes starts at inside/stub.py.
"""
