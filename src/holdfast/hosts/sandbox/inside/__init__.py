"""inside — the code of the stub, of each attempt's keeper and, until the jail is closed, of the body's process.

Belongs: namespaces, mounts, Landlock, seccomp, limits, the watch on usage, and the import of the entry inside the jail.
Does not: asyncio, or any package outside the standard library: it is loaded by `python -I -S`.   May import: itself, hosts.processes,
holdfast.files.
Start reading at stub.py, then keeper.py, then lockdown.py.
"""
