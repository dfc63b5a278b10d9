"""A worker_service on a real engine, with inline bodies and tools that count what they did."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import holdfast
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.terms import Contract, Retries, RunLimits, ToolGrant
from holdfast.model.clock import Clock, VirtualClock
from holdfast.model.ids import Ids
from holdfast.model.operations import Kind
from holdfast.service.settings import Settings
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.attempt import Body
from holdfast.workers.inline import InlineBody
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, Tool, Usage

OBJECT = {"type": "object"}
LOCAL = Caller()


def contract(*tools: str, limits: Mapping[str, Any] | None = None, **more: Any) -> Contract:
    granted = tuple(ToolGrant(name) for name in tools)
    told = {"worker_id": "w", "version": "1.0", "input_schema": OBJECT, "output_schema": OBJECT, "retries": Retries(max_attempts=3)}
    return Contract(**{**told, **more}, limits=RunLimits(tools=granted, **(limits or {})))


class Counted:
    """A tool that counts its calls, and does what it is told."""

    arguments_schema: Mapping[str, Any] | None = None

    def __init__(self, name: str, effect: Effect, does: Callable[..., Any] = lambda **_: {"done": True}, **costs: Any) -> None:
        self.name = name
        self.effect = effect
        self._does = does
        self._reservation = costs.get("reservation", Reservation())
        self._usage = costs.get("usage", Usage())
        self.calls: list[Call] = []

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        reserved: Reservation = self._reservation
        return reserved

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        self.calls.append(call)
        result = self._does(**arguments)
        if isinstance(result, BaseException):
            raise result
        return CallResult(result, self._usage)


class InlineWorker:
    """A worker whose body is a function of this process."""

    package = "p"
    kind = Kind.WORKER
    graph_text = None

    def __init__(self, contract: Contract, function: Callable[..., Any], *tools: Tool, approvals: frozenset[str] = frozenset()) -> None:
        self.contract = contract
        self._function = function
        self.tools = {tool.name: tool for tool in tools}
        self.approvals = approvals

    @property
    def worker(self) -> InlineWorker:
        return self

    async def turn(self, tenant: str, seconds: float) -> None:
        """Every tenant may start a body at once."""

    async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
        return InlineBody(self._function, timeout)


@contextlib.asynccontextmanager
async def worker_service(
    worker: InlineWorker,
    where: str = ":memory:",
    *,
    policy: Policy | None = None,
    resting: int = 1000,
    clock: Clock | None = None,
    folder: Path,
) -> AsyncIterator[WorkerService]:
    policy = policy or Policy()

    async def not_found(worker_id: str, package: str) -> Any:
        raise AssertionError("every package of these tests is served")

    service = WorkerService(policy=policy, artifacts=Artifacts(Folder(folder), policy.artifact_bytes), find=not_found)
    service.serve(worker)
    settings = Settings(clock=clock or VirtualClock(), ids=Ids(Random(0)), resting=resting, tune=False)
    async with holdfast.open(where, functions=service.functions(), settings=settings) as engine:
        service.attach(engine._engine)
        yield service


def request(**inputs: Any) -> WorkerRequest:
    names = ("idempotency_key", "constraints", "user", "version", "run_timeout_seconds")
    more = {name: inputs.pop(name) for name in names if name in inputs}
    return WorkerRequest(worker_id="w", inputs=inputs, **more)


def told(response: Response) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(response)
    return document
