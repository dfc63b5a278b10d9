"""aggregator — merges several results into one by a merge policy, and names every conflict.

Belongs: the worker and its page, an example input, and a recorded answer of the model, so that it runs without a key. Does not: other parts
of Holdfast. Start reading at worker.py.
"""
