"""Workers for tests: real ones, by their files, and stubs, by their ids.

    Runner(publish, workers={"web-scrape-worker": lambda inputs: {"title": "…"}, "validator-worker": "validator.py"})

A stub answers each request with outputs or an error, and calls no tool. If the real worker of this id is among the files, its stub has the
contract of that worker, so that inputs and outputs are checked as in production. Else a stub accepts and returns any object.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.contract.terms import Contract, RunLimits
from holdfast.model.operations import Kind
from holdfast.model.terms import MAX_RETENTION_DAYS
from holdfast.pipelines.check.known import Known
from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings
from holdfast.workers.attempt import Body
from holdfast.workers.inline import InlineBody
from holdfast.workers.packages import Package
from holdfast.workers.policy import Policy
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Tool

_ANY = {"type": "object"}


class StubbedWorker:
    """A worker that answers with outputs of the test: a mapping, an exception to raise, a callable that gets the inputs, or a list of
    these for one call after the other, of which the last is used again. `name` is the worker's id, or `ID@VERSION`."""

    kind = Kind.WORKER
    graph_text = None
    tools: Mapping[str, Tool] = {}
    approvals: frozenset[str] = frozenset()

    def __init__(self, name: str, answer: Any) -> None:
        worker_id, _, version = name.partition("@")
        self.contract = Contract(worker_id=worker_id, version=version or "1.0", input_schema=_ANY, output_schema=_ANY, limits=RunLimits())
        self.package = f"stub:{name}"
        self.is_any_version = not version
        self.calls: list[dict[str, Any]] = []
        """The inputs of each call."""
        self._answer = answer

    @property
    def worker(self) -> StubbedWorker:
        """The worker itself, as the worker service asks for it."""
        return self

    def follow(self, packages: Iterable[Package]) -> None:
        """Take the contract of the real worker that this stub replaces, without its tools and required approvals, if one of these packages
        has it."""
        for package in packages:
            contract = package.contract
            if contract.worker_id == self.contract.worker_id and (self.is_any_version or contract.version == self.contract.version):
                limits = msgspec.structs.replace(contract.limits, tools=())
                self.contract = msgspec.structs.replace(contract, limits=limits, approvals_required=())

    async def turn(self, tenant: str, seconds: float) -> None:
        """Return at once: a stub waits for no free place."""

    async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
        """A body that gives the stub's answer, in this process."""
        return InlineBody(self._outputs, timeout)

    async def _outputs(self, inputs: dict[str, Any], context: object) -> Any:
        self.calls.append(inputs)
        answer = self._answer
        if isinstance(answer, list):
            answer = answer[min(len(self.calls), len(answer)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = answer(inputs)
        return await answer if inspect.isawaitable(answer) else answer


class TestWorkers(WorkerRuntime):
    """The workers of a test. Bodies run in this process, without a sandbox, unless `settings` say otherwise."""

    __test__ = False  # pytest must not collect it as a test

    def __init__(
        self,
        workers: Mapping[str, Any] | Sequence[str | os.PathLike[str]],
        files: Sequence[str | os.PathLike[str]] = (),
        settings: WorkerSettings | None = None,
    ) -> None:
        named = workers if isinstance(workers, Mapping) else {}
        real = [file for file in named.values() if isinstance(file, str | os.PathLike)] if named else list(workers)
        self.stubs = [StubbedWorker(name, answer) for name, answer in named.items() if not isinstance(answer, str | os.PathLike)]
        super().__init__([*files, *real], settings or WorkerSettings(policy=Policy(isolation="inline")), None)
        for stub in self.stubs:
            stub.follow(self.packages)
        stand_ins: dict[str, dict[str, Known]] = {}
        for stub in self.stubs:
            stand_ins.setdefault(stub.contract.worker_id, {})[stub.contract.version] = Known(stub.contract)
        self.pipeline_runtime.stand_ins = stand_ins

    async def open(self) -> WorkerService:
        """Serve the real workers, then the stubs. Their runs are kept as long as the longest retention, so that a test can let years
        pass."""
        service = await super().open()
        service.retention_days = MAX_RETENTION_DAYS
        for stub in self.stubs:
            service.serve(stub)
        return service
