"""supervisor — chooses which of a few workers runs next, with a reason, or finishes. It runs nothing itself.

Belongs: the worker and its page, an example input, and a recorded answer of the model, so that it runs without a key. Does not: the node
that asks it and runs what it chose (holdfast.pipelines). Start reading at worker.py.
"""
