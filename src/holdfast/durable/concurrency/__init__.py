"""concurrency: many branches under one operation (map and parallel).

Belongs: the result of a batch of branches, and when a batch is complete.
Does not: a single operation's plan, user code's types.   May import: holdfast.durable's leaf modules.   Start reading at models.py.
"""
