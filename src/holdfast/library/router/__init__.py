"""router — one of a few labels for an item, with a reason; a label that was not offered becomes the fallback.

Belongs: the worker and its page, a case, and an answer to play back so that it runs without a key.   Does not: routes of pipelines
(holdfast.pipelines).   Start reading at worker.py.
"""
