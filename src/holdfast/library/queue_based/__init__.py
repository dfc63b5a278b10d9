"""queue_based — handles one message of a queue: a model does what the message asks, and the result is stored once.

Belongs: the worker and its page, a case, and answers to play back so that it runs without a key. Does not: the queue itself
(`holdfast.Queue`). Start reading at worker.py.
"""
