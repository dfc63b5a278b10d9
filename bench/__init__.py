"""bench — how fast, beside what this machine could do at best.

Absolute figures move by a factor of two from day to day, so every figure is quoted as a ratio to `limit`, measured in the same run.

Belongs: the raw limit (limit.py), the workloads, the table.   Does not: anything the product needs.   May import: holdfast's front door.
"""
