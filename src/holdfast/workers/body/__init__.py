"""workers.body — what runs inside the sandbox: the author's function, and the context it is given.

Belongs: WorkerContext in both colours, and the loop that serves one attempt over frames. Does not: anything that must be trusted: every
limit, receipt and budget is the runner's. May import: holdfast.contract, holdfast.model, holdfast.workers.tools (the pure ones).
Start reading at main.py.
"""
