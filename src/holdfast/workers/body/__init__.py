"""workers.body — what runs inside the sandbox: the author's function, and the context that it gets.

Belongs: WorkerContext for `def` and `async def` bodies, and the code that serves one attempt over frames. Does not: anything that must be
trusted. The runner enforces limits and budgets, and writes receipts. May import: holdfast.contract, holdfast.model, holdfast.workers.tools
(the pure ones), holdfast.hosts.sandbox.inside. Start reading at main.py.
"""
