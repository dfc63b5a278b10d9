"""router — chooses one of a few labels for an item, with a reason; if the model names a label that was not offered, the fallback is used.

Belongs: the worker and its page, an example input, and a recorded answer of the model, so that it runs without a key. Does not: routes of
pipelines (holdfast.pipelines). Start reading at worker.py.
"""
