"""A console with a server beside it: a worker, a pipeline and a durable function on a real engine, in one process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from holdfast.console.console import Console
from holdfast.console.server_process import ServerProcess
from holdfast.durable import DurableContext, durable_execution
from holdfast.durable.config import StepConfig
from holdfast.durable.retries import RetryPresets
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.ids import id_at
from holdfast.service.engines import BlockingEngine, EngineOpening
from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from holdfast.workers.policy import Policy
from tests.console.scene import Scene
from tests.workers.pages import page, write

WORKERS = """
from holdfast import ToolCall, WorkerContext, WorkerError, tool, worker


@tool(effect="write")
def post(call: ToolCall, text: str) -> dict:
    return {"posted": text}


@worker("say.md")
def say(inputs: dict, ctx: WorkerContext) -> dict:
    if inputs["text"] == "bad":
        raise WorkerError("no_luck", "there was none")
    return {"said": ctx.tools.post(text=inputs["text"])["posted"]}
"""
TAKES = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say.", "maxLength": 40, "examples": ["hello"]},
        "times": {"type": "integer", "minimum": 1, "default": 1},
        "tone": {"enum": ["kind", "plain"]},
        "loud": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "token": {"type": "string", "writeOnly": True},
    },
    "required": ["text"],
    "additionalProperties": False,
}
GIVES = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}
FLOW = """from holdfast import Pipeline


def doubled(inputs):
    return {"n": inputs["n"] * 2}


def checked(inputs):
    if inputs["n"] > 100:
        raise ValueError("too much")
    return {"n": inputs["n"]}


N = {"type": "object", "properties": {"n": {"type": "integer"}, "list": {"type": "array"}}, "required": ["n"]}
p = Pipeline("flow", "1.0", inputs=N, outputs={"type": "object"})
twice = p.step("twice", doubled, {"n": p.inputs.n})
good = p.gate("small", None, twice.outputs, schema={"properties": {"n": {"maximum": 50}}}, shadow=True)
signed = p.human("sign-off", show={"n": good.outputs.n}, question="Is it right?")
last = p.step("last", checked, {"n": signed.outputs.n})
p.gives({"n": last.outputs.n})
"""


@durable_execution
def order(event: dict[str, Any], context: DurableContext) -> dict[str, Any]:
    """Three steps, the last of which may fail."""
    price = context.step(lambda _: event["price"] * 2, name="price")
    tax = context.step(lambda _: price / 10, name="tax")

    def charge(_: Any) -> str:
        if event["price"] > 100:
            raise ValueError("no money")
        return f"receipt-{price}"

    once = StepConfig(retry_strategy=RetryPresets.none())
    return {"receipt": context.step(charge, name="charge", config=once), "tax": tax}


FUNCTIONS = [order]


class ServingScene(Scene):
    """A store with a console and a server beside it."""

    def __init__(self, store: Store, where: str, clock: Clock, engine: BlockingEngine, served: ServerProcess) -> None:
        super().__init__(store, where, clock)
        self.engine = engine
        self.served: ServerProcess | None = served

    @contextlib.asynccontextmanager
    async def app(self, *, read_only: bool = False) -> AsyncIterator[App]:
        """The app, with the console's routes only."""
        gate = open_gate(self.store, host="127.0.0.1", clock=self.clock)
        console = Console(self.store, self.where, gate, clock=self.clock, ids=id_at, read_only=read_only, served=self.served)
        try:
            yield App(console.routes(), WebLimits(), lambda: id_at(self.clock.now()), gate)
        finally:
            await console.close()
            await gate.close()

    def decide(self, run: str, verdict: str = "approve", **more: Any) -> None:
        """Answer the question of a run, and wait for its end."""
        from holdfast.workers.approvals import Decision
        from holdfast.workers.run_lookup import Caller

        assert self.served is not None
        assert self.served.workers is not None
        service, caller = self.served.workers, Caller(principal="test")
        (asked,) = [one for one in service.approvals(caller) if one.run_id == run]
        decision = Decision(verdict=verdict, decided_by="test", decided_at=0, **more)
        self.served.do(lambda: service.decide(asked.approval_id, decision, caller))
        self.served.do(lambda: service.response(run, caller, wait=20))

    def over_or_asks(self, run: str) -> None:
        """Wait until a run is over, or needs a person."""
        from holdfast.workers.run_lookup import Caller

        assert self.served is not None
        assert self.served.workers is not None
        service = self.served.workers
        self.served.do(lambda: service.response(run, Caller(principal="test"), wait=20))

    def over(self, run: str) -> None:
        """Wait until a run or an execution is over, or needs a person."""
        self.engine._loop_thread.call(lambda: self.engine._inner._engine.ending(run))


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[ServingScene]:
    """A new store with a server of one worker, one pipeline and one function."""
    worker = write(folder / "code", WORKERS, say=page("say", "post", attempts=1, inputs=TAKES, outputs=GIVES))
    flow = folder / "code" / "flow.py"
    flow.write_text(FLOW)
    where, settings = str(folder / "console.db"), WorkerSettings(policy=Policy(isolation="inline"))
    runtime = WorkerRuntime([worker, flow], settings, None)
    opening = EngineOpening(where, FUNCTIONS, NO_SUBSCRIBERS, Settings(tune=False), runtime)
    with opening as engine, contextlib.closing(open_store(where, id_at(SystemClock().now()))) as store:
        loop = engine._loop_thread._loop
        served = ServerProcess(loop, workers=runtime.worker_service, functions=FUNCTIONS, look_for_work=opening.engine.look_for_work)
        yield ServingScene(store, where, store.clock(SystemClock()), engine, served)
