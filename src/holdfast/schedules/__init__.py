"""schedules — the schedules of a store for users: how they are declared, shown and changed.

declarations.py     `holdfast.Schedule`, and schedules of holdfast.toml, of pages and of HTTP; start here
store_schedules.py  shows and changes the schedules of a store, without an engine
documents.py        schedules in words and as JSON objects

Belongs: what a person or a program asks of a schedule.   Does not: when a schedule is due (holdfast.model.schedules), and starting its
executions (holdfast.engine).   May import: packages below it.
"""
