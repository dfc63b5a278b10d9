"""workers.body — what runs inside the sandbox: the author's function, and the context that it gets.

Belongs: WorkerContext for `def` and `async def` bodies, and the loop that serves one attempt over frames. Does not: anything that must be
trusted. Limits, receipts and budgets are kept by the runner.
May import: holdfast.contract, holdfast.model, holdfast.workers.tools (the pure ones).
Start reading at main.py.
"""
