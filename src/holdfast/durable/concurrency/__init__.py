"""concurrency: many branches under one operation (map and parallel).

Belongs: what a batch of branches yields, and when it has seen enough.
Does not: a single operation's plan, user code's types.   May import: holdfast.durable's leaf modules.   Start reading at models.py.
"""
