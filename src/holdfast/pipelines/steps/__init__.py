"""steps — the small pure functions of a pipeline's file, called in the sandbox.

steps.py        the runner's side; start here
entry.py        what runs inside the sandbox
"""
