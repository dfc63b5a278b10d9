"""worker_kit: runs workers in tests, on the real runtime in memory, with virtual time, stubs for tools, and crash_everywhere.

r = worker_kit.run("refund.py", {"message": "…", "order_id": "42"}, tools={"language_model": {"decision": "refund", "cents": 1900}})
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from holdfast.contract.protocol import Response, request_from, response_document
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.ids import Ids
from holdfast.service.engines import EngineOpening, OpenEngine
from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings
from holdfast.service.settings import Settings
from holdfast.testing.crashing import AFTER, BEFORE, LAST, Crash, CrashDiffers, Crashing
from holdfast.workers.approvals import Decision
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.read_repo import RepoSettings
from holdfast.workers.tools.seam import Call, CallResult, CallVerdict, DidNotHappen, Effect, Happened, Remaining, Reservation, Tool, Usage

_BOUND = 50
"""The kit answers the questions of one run at most this many times, one after the other. Then it raises InvalidParameter."""
_LONGEST_WAIT = 3_600_000
"""The clock skips a wait of at most this many milliseconds. A longer wait is taken for the time in which a person may decide, and is not
skipped."""
_TESTER = Caller(principal="test")


class _Clock(VirtualClock):
    """A clock that skips waits of up to an hour, such as back-offs. It does not skip a longer wait, which is taken for the time in which a
    person may decide: the test gives the decisions."""

    def skip_to(self, at: int) -> None:
        if at - self.now() <= _LONGEST_WAIT:
            super().skip_to(at)


class Stub:
    """Replaces a tool. `answer` is a value for every call, a callable that gets the arguments by name, or a list with a value for each
    call; after its end, its last value is used for every further call. A value that is an exception is raised instead of returned."""

    def __init__(self, tool: Tool, answer: Any, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self._tool = tool
        self._answer = answer
        self._calls = calls
        self.name, self.effect, self.arguments_schema = tool.name, tool.effect, tool.arguments_schema
        self._given = 0
        self._happened: dict[str, Any] = {}

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """Reserve nothing, because a stub costs nothing."""
        return Reservation()

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Record the call, and return the answer that the test gave. If the answer is an exception, raise it."""
        self._calls.append((self.name, dict(arguments)))
        answer = self._answer
        if callable(answer):
            answer = answer(**arguments)
        elif isinstance(answer, list):
            answer = answer[min(self._given, len(answer) - 1)]
            self._given += 1
        if isinstance(answer, BaseException):
            raise answer
        self._happened[call.idempotency_key] = answer
        return CallResult(answer, Usage())

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> CallVerdict:
        """Whether a call with this idempotency key returned an answer before: Happened with the answer, else DidNotHappen."""
        known = call.idempotency_key in self._happened
        return Happened(self._happened[call.idempotency_key]) if known else DidNotHappen()


def stubbed_settings(settings: WorkerSettings | None, tools: Mapping[str, Any]) -> WorkerSettings:
    """`settings`; if they are None, settings with which the body runs in this process. The tool `parameter_store` exists only if
    `parameters` is set, and `read_repo` only if `repos` is set: if such a tool is stubbed and its setting is missing, the setting is
    added."""
    settings = settings or WorkerSettings(policy=Policy(isolation="inline"))
    if "parameter_store" in tools and settings.parameters is None:
        settings = msgspec.structs.replace(settings, parameters="stubbed")
    if "read_repo" in tools and not settings.repos:
        settings = msgspec.structs.replace(settings, repos={"stubbed": RepoSettings(folder="stubbed")})
    return settings


class WorkerRan(msgspec.Struct, frozen=True):
    """A run of a worker: its response, and the calls of stubbed tools. Members of the response can be read directly: `ran.status`,
    `ran.outputs`, `ran.error`."""

    response: Response
    calls: tuple[tuple[str, dict[str, Any]], ...]
    """Each call of a stubbed tool: the tool's name, and the arguments."""
    writes: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The calls of stubbed tools whose effect is `write`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


def run(
    file: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    *,
    tools: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Any] | None = None,
    worker: str | None = None,
    worker_settings: WorkerSettings | None = None,
    **request: Any,
) -> WorkerRan:
    """Run a worker once. `worker` is its id. Without it, the file must declare exactly one worker; if it declares several, InvalidParameter
    is raised. `request` are further members of the request, such as `idempotency_key`.

    `tools` are the answers of its tools, by name: a value, an exception to raise, a callable that gets the arguments, or a list of values
    for one call after the other, of which the last is used again. A tool without an answer is called as in production.

    `decisions` are the decisions of people, by the question, or by the tool if there is no question. A decision is a verdict (`"approve"`,
    `"reject"`), or a mapping with a verdict and more (`edited_arguments`, `result`). If a decision is missing, this function returns while
    the run waits, and the status of the response is `needs_human`.

    The body runs in this process, unless `worker_settings` says otherwise. Waits of up to an hour take no real time.
    """
    return asyncio.run(_ran(Path(file), inputs, tools or {}, decisions or {}, worker, worker_settings, request, None))


def crash_everywhere(
    file: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    *,
    tools: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Any] | None = None,
    worker: str | None = None,
    worker_settings: WorkerSettings | None = None,
    **request: Any,
) -> int:
    """Run a worker again and again, with a crash of the runner before and after each of its writes, and at the end. The arguments mean the
    same as those of `worker_kit.run`: among them the answers of tools (`tools`), the decisions of people (`decisions`) and the worker's id
    (`worker`).

    The response must stay the same, except for its duration, the ids of its trace, its log fields, its usage, and what its approvals say
    about spending. The calls of stubbed tools whose effect is `write` must be the same as without a crash, and none may be repeated.
    Returns the number of crashes. Raises `CrashDiffers` at the first crash that changes something.
    """

    def once(point: int, when: str) -> tuple[Any, Any, int]:
        crash = Crash(point, when)
        ran = asyncio.run(_ran(Path(file), inputs, tools or {}, decisions or {}, worker, worker_settings, request, crash))
        return meaning(ran.response), _written(ran), crash.seen

    straight, effects, points = once(0, BEFORE)
    places = [(point, when) for point in range(1, points + 1) for when in (BEFORE, AFTER)] + [(points, LAST)]
    for point, when in places:
        crashed, also, _ = once(point, when)
        where = f"A crash {when} write {point} of {points} changes"
        if crashed != straight:
            raise CrashDiffers(f"{where} the response: it was {straight!r}, now it is {crashed!r}.")
        if also != effects:
            raise CrashDiffers(f"{where} the side effects: they were {effects!r}, now they are {also!r}.")
    return len(places)


async def _ran(
    file: Path,
    inputs: Mapping[str, Any],
    tools: Mapping[str, Any],
    decisions: Mapping[str, Any],
    worker: str | None,
    worker_settings: WorkerSettings | None,
    request: Mapping[str, Any],
    crash: Crash | None,
) -> WorkerRan:
    calls: list[tuple[str, dict[str, Any]]] = []
    effects: dict[str, Effect] = {}
    runtime = WorkerRuntime([file], stubbed_settings(worker_settings, tools), None)

    def replaced(tool: Tool) -> Tool:
        effects[tool.name] = tool.effect
        return Stub(tool, tools[tool.name], calls) if tool.name in tools else tool

    runtime.replaced = replaced
    clock = _Clock()
    opening = EngineOpening(":memory:", [], NO_SUBSCRIBERS, Settings(clock=clock, ids=Ids(Random(0)), resting=0, tune=False), runtime)
    names = [package.contract.worker_id for package in runtime.packages]
    wanted = worker or next(iter(names), "")
    if crash is not None:
        opening.wrap = lambda host: Crashing(host.unhurried(), [wanted], crash)
    async with opening as engine:
        if not wanted:
            raise InvalidParameter(f"{file.name} declares no worker. Name a file that has one; `pipeline_kit.run` runs a pipeline.")
        if worker is None and len(names) > 1:
            raise InvalidParameter(f"{file.name} has several workers: {', '.join(names)}. Say which one runs: worker={names[0]!r}.")
        asked = request_from({"worker_id": wanted, "inputs": dict(inputs), **request})
        response = await _decided(engine, await engine.worker_service.invoke(asked, _TESTER), decisions)
    return WorkerRan(response, tuple(calls), tuple(call for call in calls if effects[call[0]] is Effect.WRITE))


async def _decided(engine: OpenEngine, response: Response, decisions: Mapping[str, Any]) -> Response:
    for round in range(_BOUND + 1):
        said = [(approval, decisions.get(approval["question"] or approval["tool"])) for approval in response.approvals]
        if not said or any(decision is None for _, decision in said):
            return response
        if round == _BOUND:
            break
        for approval, decision in said:
            told = {"verdict": decision} if isinstance(decision, str) else dict(decision or {})
            await engine.worker_service.decide(approval["approval_id"], Decision(decided_by="tester", decided_at=0, **told), _TESTER)
        response = await engine.worker_service.response(response.run_id, _TESTER)
    raise InvalidParameter(
        f"The run asked for more than {_BOUND} decisions, one after the other. worker_kit gives no more: does it ask in a loop?"
    )


def meaning(response: Response) -> dict[str, Any]:
    """The part of a response that no crash may change. Left out are the duration, the ids of the trace, the log fields, the usage, and what
    approvals say about spending: a call without side effects that a crash interrupts is made again, and costs again."""
    document = response_document(response)
    for name in ("duration_ms", "trace_id", "span_id", "log_fields", "usage"):
        document["observability"].pop(name, None)
    for approval in document["approvals"]:
        approval.pop("spent", None)
    return document


def _written(ran: WorkerRan) -> list[str]:
    """The calls of stubbed tools whose effect is `write`, as sorted texts. Other calls are left out, because they may be made again."""
    return sorted(map(repr, ran.writes))
