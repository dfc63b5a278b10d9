"""Every code of the one table, each reached by a real run: its status, whether it may be tried again, and its exit code are the table's."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.workers import exit_code
from holdfast.contract.codes import CODES, Status
from holdfast.contract.protocol import Response
from holdfast.model.clock import VirtualClock
from holdfast.service.client import Client
from holdfast.service.opening import BlockingEngine
from holdfast.service.settings import Settings
from holdfast.service.staff import StaffSettings
from holdfast.workers.looking import Asker
from holdfast.workers.policy import Policy
from holdfast.workers.tools.fetching import FetchSettings
from holdfast.workers.tools.prices import Price
from tests.crash.scene import until
from tests.workers import processes
from tests.workers.pages import page, write

REACHING = Path(__file__).parent / "bodies" / "reaching.py"
TOOLS = ("look", "slow", "far", "broken", "held", "vanishing", "pay", "pay_asked", "fetch_url", "language_model")
ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
WHAT = {"type": "object", "properties": {"do": {"type": "string"}}, "required": ["do"]}
KERNEL = "unshare,setns,mount,landlock_create_ruleset"


def worker_file(folder: Path) -> Path:
    limits: dict[str, Any] = {"max_memory_mb": 192, "max_cpu_seconds": 0.5, "timeout_seconds": 20, "idle_timeout_seconds": 15}
    return write(
        folder / "worker",
        REACHING,
        reaching=page("reaching", *TOOLS, attempts=1, inputs=WHAT, outputs=ANSWER, **limits),
        seldom=page("seldom", attempts=1, rate_limit="1/min per tenant"),
    )


class World:
    """An engine with real jails, a web server, and an address where nobody is."""

    def __init__(self, folder: Path, engine: BlockingEngine, web: Web, file: Path) -> None:
        self.engine = engine
        self.client = Client.open(str(folder / "s.db"))
        self.web = web
        self.folder = folder
        self.file = file

    def run(self, do: Any, *, key: str | None = None, constraints: Mapping[str, Any] | None = None, **inputs: Any) -> Response:
        response: Response = self.engine.run("reaching", {"do": do, **inputs}, idempotency_key=key, constraints=constraints)
        return response

    def tool(self, name: str, constraints: Mapping[str, Any] | None = None, **arguments: Any) -> Response:
        return self.run("tool", constraints=constraints, tool=name, arguments=arguments)

    def decided(self, verdict: str) -> Response:
        asked = self.run("tool", key=verdict, tool="pay_asked", arguments={"cents": 1})
        self.client.decide(asked.approvals[0]["approval_id"], verdict)
        return self.run("tool", key=verdict, tool="pay_asked", arguments={"cents": 1})

    def cancelled(self) -> Response:
        """Cancelled by somebody else while its body is at work."""
        engine, found = self.engine, []
        thread = threading.Thread(target=lambda: found.append(self.run("sleep", key="cancelled")))
        thread.start()
        at_work = until(lambda: [x for x in self.client.list(holdfast.service.client.Filter(limit=1)) if x.invocation], "it to be at work")
        engine._portal.call(lambda: engine._inner.workforce.cancel(at_work[0].id, Asker()))
        thread.join()
        return found[0]

    def expired(self) -> Response:
        """On a clock that does not wait."""
        staff = StaffSettings(policy=Policy(isolation="inline", approval_seconds=60))
        settings = Settings(clock=VirtualClock(), tune=False)
        with holdfast.open(":memory:", workers=[self.file], staff=staff, settings=settings) as engine:
            engine._portal.call(lambda: _ended(engine, {"do": "tool", "tool": "pay_asked", "arguments": {"cents": 1}}))
            response: Response = engine.run("reaching", {"do": "tool", "tool": "pay_asked", "arguments": {"cents": 1}}, idempotency_key="k")
        return response

    def often(self) -> Response:
        self.engine.run("seldom", {})
        response: Response = self.engine.run("seldom", {})
        return response


async def _ended(engine: BlockingEngine, inputs: dict[str, Any]) -> None:
    from holdfast.contract.protocol import Request

    force = engine._inner.workforce
    header = await force.accept(Request(worker_id="reaching", inputs=inputs, idempotency_key="k"), Asker())
    await engine._inner._engine.ending(header.id)
