"""bench — how fast, beside what this machine could do at best and beside others; and how steady.

Absolute figures move by a factor of two from day to day, so every figure is quoted with its ratio to a limit of the same run.

Belongs: the raw limit (limit.py), the workloads (those of the HTTP service in http*.py), peers, the table, the picture,
the soak.   Does not: anything the product needs.   May import: holdfast.
Start reading at measuring.py; lines.py has what is asked of each figure.
"""
