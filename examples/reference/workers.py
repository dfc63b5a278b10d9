"""Workers.

A worker is a page (its contract) and a function (its body). The body runs in a sandbox and reaches the world only through tools,
which run outside of it. [worker-md.md](../worker-md.md) has the page, [tools.md](../tools.md) the tools. `step`, `ask`, `artifact`,
`open` and the tools are awaited in an `async def` body; in a `def` body they return the value.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import holdfast
from holdfast import ToolCall, WorkerContext, WorkerError, WorkerSettings, read_operator, tool, worker
from holdfast.testing import worker_kit

folder = tempfile.TemporaryDirectory()
PAGE = """
# Example

Problem: An example needs a worker.

## Worker spec

~~~yaml
worker_id: example-worker
version: 1.0
purpose: Be an example.
inputs:
  - to: string
outputs:
  - said: string
constraints:
  tools_allowed: []
~~~
"""


def written(body: str, tools: Sequence[str] = ()) -> Path:
    """A file with a worker, and its page beside it."""
    Path(folder.name, "example-worker.md").write_text(PAGE.replace("[]", str(list(tools))))
    file = Path(folder.name, "example.py")
    file.write_text(f"from holdfast import WorkerContext, WorkerError, tool, worker\n\n{body}")
    return file


@tool(effect="write", secrets=["PAY_KEY"], approval=True)
def refund(call: ToolCall, order_id: str, cents: int) -> dict[str, Any]:
    return {"id": f"re_{order_id}", "key": call.idempotency_key, "cents": cents}


call = ToolCall(run_id="run-1", tool="refund", idempotency_key="key-1", secrets={"PAY_KEY": "s3cret"})


# --- worker
@worker("example-worker.md")
def declared(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    return {"said": f"hello {inputs['to']}"}


greeter = written("""
@worker("example-worker.md")
def greet(inputs, ctx):
    return {"said": f"hello {inputs['to']}"}
""")
assert worker_kit.run(greeter, {"to": "Ada"}).outputs == {"said": "hello Ada"}


# --- WorkerContext, WorkerContext.step, WorkerContext.now, WorkerContext.uuid, WorkerContext.random, WorkerContext.remaining
stepping = written("""
@worker("example-worker.md")
async def example(inputs: dict, ctx: WorkerContext) -> dict:
    drawn = await ctx.step(lambda: len(inputs["to"]), "length")  # runs once; a replay gets what it returned
    ctx.uuid(), ctx.random(), ctx.now()                          # the same on every replay
    assert ctx.remaining().total_seconds() > 0
    return {"said": f"{drawn} letters"}
""")
assert worker_kit.run(stepping, {"to": "Ada"}).outputs == {"said": "3 letters"}
assert worker_kit.crash_everywhere(stepping, {"to": "Ada"}) > 0


# --- WorkerContext.log, WorkerContext.progress
telling = written("""
@worker("example-worker.md")
def example(inputs, ctx):
    ctx.log("half done", level="info", done=1, of=2)
    ctx.progress({"done": 1, "of": 2})
    return {"said": "done"}
""")
assert worker_kit.run(telling, {"to": "Ada"}).status == "ok"


# --- WorkerContext.artifact, WorkerContext.open
large = written("""
@worker("example-worker.md")
async def example(inputs, ctx):
    reference = await ctx.artifact("report.txt", "a long text", media_type="text/plain")
    with await ctx.open(reference) as file:
        return {"said": file.read().decode()}
""")
assert worker_kit.run(large, {"to": "Ada"}).outputs == {"said": "a long text"}


# --- WorkerContext.ask
asking = written("""
@worker("example-worker.md")
async def example(inputs, ctx):
    return {"said": await ctx.ask("What shall I say?", schema={"type": "string"})}
""")
answer = {"verdict": "answer", "result": "good morning"}
assert worker_kit.run(asking, {"to": "Ada"}, decisions={"What shall I say?": answer}).outputs == {"said": "good morning"}


# --- WorkerError
failing = written("""
@worker("example-worker.md")
def example(inputs, ctx):
    raise WorkerError("out_of_stock", "no tea today", retryable=False)
""")
ran = worker_kit.run(failing, {"to": "Ada"})
assert ran.error is not None
assert ran.status == "permanent_error"
assert ran.error.error_code == "out_of_stock"
assert WorkerError("out_of_stock").error_code == "out_of_stock"


# --- tool
paying = written(
    """
@tool(effect="read")
def price(call, sku: str) -> dict:
    return {"cents": 500}


@worker("example-worker.md")
async def example(inputs, ctx):
    found = await ctx.tools.price(sku="tea")
    return {"said": f"{found['cents']} cents"}
""",
    tools=["price"],
)
assert worker_kit.run(paying, {"to": "Ada"}, tools={"price": {"cents": 700}}).outputs == {"said": "700 cents"}


# --- ToolCall, ToolCall.secret, ToolCall.remaining, ToolCall.close, ToolCall.aclose
call = ToolCall(run_id="run-1", tool="refund", idempotency_key="key-1", secrets={"PAY_KEY": "s3cret"})  # a test makes one
assert refund(call, order_id="42", cents=1900) == {"id": "re_42", "key": "key-1", "cents": 1900}
assert call.secret("PAY_KEY") == "s3cret"
assert call.remaining().total_seconds() > 0  # of a call without a deadline: `timedelta.max`
call.close()  # the tool host does this; `await call.aclose()` in a running loop
asyncio.run(call.aclose())


# --- ToolCall.refused
@tool
def charge(call: ToolCall, cents: int) -> dict[str, Any]:
    if cents > 10_000:
        raise call.refused("too much for one day", code="limit_reached", retry_after_seconds=3600)
    return {"charged": cents}


assert charge(call, cents=5) == {"charged": 5}


# --- ToolCall.happened, ToolCall.did_not_happen, ToolCall.unknown
payments = {"key-1": {"id": "re_42"}}


@refund.reconcile
def refund_happened(call: ToolCall, order_id: str, cents: int) -> Any:
    """Called when an answer was lost: look the payment up by its key. `call.unknown()` asks a person."""
    found = payments.get(call.idempotency_key)
    return call.happened(found) if found else call.did_not_happen()


assert refund_happened(call, "42", 1900).result == {"id": "re_42"}


# --- read_operator
Path(folder.name, "holdfast.toml").write_text("[policy.caps]\nruns = 1000\n")
told = read_operator(file=Path(folder.name, "holdfast.toml"))
assert told.policy.caps is not None
assert told.policy.caps.runs == 1000


# --- WorkerSettings
async def main() -> None:
    file = written('@worker("example-worker.md")\ndef example(inputs, ctx):\n    return {"said": "hello"}\n')
    settings = WorkerSettings(parameters=None, secrets=())
    async with holdfast.open(":memory:", workers=[file], worker_settings=settings) as engine:
        response = await engine.run("example-worker", {"to": "Ada"}, idempotency_key="case-7")
    assert (response.status, response.outputs) == ("ok", {"said": "hello"})


asyncio.run(main())
