"""queue_based — handles one message of a queue: a model does what the message asks, and the result is stored once.

Belongs: the worker and its page, an example input, and recorded answers, so that it runs without a key. Does not: the queue itself
(`holdfast.Queue`). Start reading at worker.py.
"""
