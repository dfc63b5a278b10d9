"""bench — the speed of Holdfast compared with the limit of this machine and with other systems; and a soak test.

Absolute figures change by a factor of two from day to day, so every figure has its ratio to a limit of the same run.

Belongs: the raw limit (limit.py), the workloads (those of the HTTP service in http*.py), peers, the table, the picture,
the soak.   Does not: anything the product needs.   May import: holdfast.
Start reading at measuring.py; lines.py has the targets of each figure.
"""
