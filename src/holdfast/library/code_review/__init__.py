"""code_review — a model reviews a diff. Each issue that is reported has a file and a line that are in the diff. Nothing is written.

Belongs: the worker and its page, how a diff is read (diffs.py), an example input, and a recorded answer of the model, so that it runs
without a key. Does not: other parts of Holdfast. Start reading at worker.py.
"""
