"""aws_lambda — a request of the worker protocol in, its response out, as the outputs of another: an envelope inside an envelope.

Belongs: the worker and its page, and an example input.   Does not: deploying to AWS (holdfast.aws).
May import: holdfast.contract, holdfast.workers.tools (pure).   Start reading at worker.py.
"""
