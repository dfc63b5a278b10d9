"""steps — the small pure functions of a pipeline's file, called in the sandbox.

steps.py        runs in the runner; start here
entry.py        runs inside the sandbox
"""
