"""aws_lambda — gets a request of the worker protocol as its input, and returns the response to that request as its outputs.

Belongs: the worker and its page, and an example input. Does not: deploying to AWS (holdfast.aws). May import: holdfast.contract,
holdfast.model, holdfast.workers.tools (pure). Start reading at worker.py.
"""
