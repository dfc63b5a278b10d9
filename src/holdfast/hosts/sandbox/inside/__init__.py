"""inside — what runs in the stub, in each attempt's keeper and, until it is locked, in the body's process.

Belongs: namespaces, mounts, Landlock, seccomp, limits, watching, and the import of the entry behind all of them.
Does not: asyncio, or anything that is not the standard library's: it is loaded by `python -I -S`.   May import: itself, hosts.processes.
Start reading at stub.py, then keeper.py, then locking.py.
"""
