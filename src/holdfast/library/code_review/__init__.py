"""code_review — a diff is read, and each issue has a file and a line that are really in the diff. Nothing is written.

Belongs: the worker and its page, how a diff is read (diffs.py), a case, and an answer to play back so that it runs without a key.
Does not: other parts of Holdfast.   Start reading at worker.py.
"""
