"""The way of a request through the worker service stays short: at most three of its methods before the engine writes."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast.engine.engine import Engine
from holdfast.workers.service import WorkerService
from tests.workers.harness import LOCAL, InlineWorker, contract, request, worker_service

ASKED = {"worker_id": "w", "inputs": {}}


async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    "ask, methods",
    [
        (lambda service: service.ask(ASKED, "default", None), ["ask", "begin", "accept"]),
        (lambda service: service.begin_asked(ASKED, "default"), ["begin_asked", "begin", "accept"]),
        (lambda service: service.invoke(request(), LOCAL), ["invoke", "begin", "accept"]),
    ],
    ids=["in a program", "on the command line", "over HTTP"],
)
async def test_a_request_passes_three_methods_before_the_engine(
    ask: Callable[[WorkerService], Awaitable[object]], methods: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    start = Engine.start

    async def noted(engine: Engine, *given: Any, **more: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if isinstance(frame.f_locals.get("self"), WorkerService):
                passed.insert(0, frame.f_code.co_name)
            frame = frame.f_back
        return await start(engine, *given, **more)

    monkeypatch.setattr(Engine, "start", noted)
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        await ask(service)
    assert passed == methods
