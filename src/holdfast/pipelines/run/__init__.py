"""run — the interpreter: one durable function that runs every pipeline.

run.py              the handler, from the first node to the response; start here
advance.py          calls each node that may run; readiness.py says whether a node may begin, or is skipped
early_end.py        why a run ends early, and how its open parts are ended; undo.py takes back what nodes did
response.py         what the run answers
served_pipeline.py  a pipeline as the worker service serves it
"""
