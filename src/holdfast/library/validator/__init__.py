"""validator — judges a candidate by a schema, by rules and, for criteria in words, by a model; the verdict has reasons.

Belongs: the worker and its page, an example input, and a recorded answer of the model, so that it runs without a key. Does not: other parts
of Holdfast. Start reading at worker.py.
"""
