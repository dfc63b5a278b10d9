"""aggregator — merges several results into one by a merge policy, and names every conflict.

Belongs: the worker and its page, a case, and an answer to play back so that it runs without a key. Does not: other parts of Holdfast.
Start reading at worker.py.
"""
