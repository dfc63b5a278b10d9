"""pipeline_kit: runs pipelines in tests, on the real runtime in memory: virtual time, stubbed or real workers, answers of people.

    ran = pipeline_kit.run("research.py", {"vendor": "Acme"}, workers={"fact-worker": {"price": 9}}, decisions={"sign": "approve"})
    assert (ran.status, ran.nodes["publish"].state) == ("ok", "ok")

A wait of days takes no time. Time stands still while a person is asked, unless the test says that the person stays silent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.contract.protocol import Response
from holdfast.pipelines.builder.pipeline import Pipeline
from holdfast.pipelines.record.states import NodeStatus
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing.crashing import AFTER, BEFORE, LAST, Crash, CrashDiffers
from holdfast.testing.node_runs import NodeRun
from holdfast.testing.pipeline_stage import EndingCrash, ObservedRun, play
from holdfast.testing.worker_kit import meaning
from holdfast.workers.approvals import Approval
from holdfast.workers.events import RunEvent

_PATIENCE = 60.0


class PipelineRan(msgspec.Struct, frozen=True):
    """A run of a pipeline: its response, and what happened during the run. Members of the response can be read directly: `ran.status`,
    `ran.outputs`, `ran.error`. If the test restarted the run (`again`), all members describe the last restart, but the calls are those of
    all runs together."""

    response: Response
    nodes: dict[str, NodeStatus]
    """Each node with its state: `ran.nodes["publish"].state`."""
    runs: dict[str, tuple[NodeRun, ...]]
    """The runs that each node asked for: items, rounds, fallbacks and undos. They are in the order in which they began; those of a map with
    shards are in the order of the shards."""
    events: tuple[RunEvent, ...]
    """The events of the run, as `holdfast runs follow` shows them."""
    questions: tuple[Approval, ...]
    """What people were asked, in the order of the questions, with what they decided."""
    stub_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Each call of a stubbed worker: the worker's id, and the inputs."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Each call of a stubbed tool: the tool's name, and the arguments."""
    writes: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The calls of stubbed tools whose effect is `write`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


def run(
    pipeline: str | os.PathLike[str] | Pipeline,
    inputs: Mapping[str, Any],
    *,
    workers: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Any] | None = None,
    name: str | None = None,
    worker_settings: WorkerSettings | None = None,
    timeout: float = _PATIENCE,
    again: Sequence[Mapping[str, Any]] = (),
    **request: Any,
) -> PipelineRan:
    """Run a pipeline once: a file that declares one (`name` says which, if it declares several), or a `Pipeline` of the test itself.

    `workers` are workers by id: a file, or a stub, which is a mapping of outputs, an exception to raise, a callable that gets the inputs,
    or a list of these for one call after the other, of which the last is used again. For a pipeline in a file, workers that `workers` does
    not name are found as in production: in the folder of the file, then in the library. For a `Pipeline` of the test, `workers` must name
    them all. `tools` are the answers of their tools, by name: a value, an exception to raise, a callable that gets the arguments, or a list
    of values for one call after the other, of which the last is used again. `request` are further members of the request, such as
    `idempotency_key`.

    `decisions` are the decisions of people, by the node that asks, or by the tool or the question of a node's worker. A decision is one of:
    a verdict (`"approve"`, `"reject"`); an answer to an escalation (`"retry"`, `"skip"`, `"stop"`, `{"action": "use", "outputs": {…}}`); a
    mapping with a verdict and more (`edited_arguments`, `result`, `decided_by`); any other mapping, which is the answer to a question;
    `"silence"` (no person answers, and time passes); `"cancel"` (the run is cancelled at this question); a callable that gets the question
    and returns a decision; or a list of these for one question after the other. Each further vote on a question also takes the next member
    of the list, and so does a question whose chain has added approvers after a silence. If a decision is missing, this function returns
    while the run waits, and the response says what the run waits for.

    With `again`, the run is restarted after its end, once for each member of the list, and the result is that of the last restart: `{}` is
    a retry, and `{"nodes": "publish"}` a restart with these arguments of `engine.restart`.

    Raises `NotYet` if a run reaches neither its end nor a question without a decision within `timeout` seconds of real time.
    """
    asked = {"inputs": dict(inputs), **request}
    return _ran(
        asyncio.run(play(pipeline, asked, workers or {}, tools or {}, decisions or {}, name, worker_settings, timeout, None, again))
    )


def crash_everywhere(
    pipeline: str | os.PathLike[str] | Pipeline,
    inputs: Mapping[str, Any],
    *,
    workers: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Any] | None = None,
    name: str | None = None,
    worker_settings: WorkerSettings | None = None,
    timeout: float = _PATIENCE,
    again: Sequence[Mapping[str, Any]] = (),
    **request: Any,
) -> int:
    """Run a pipeline again and again, with a crash before and after each write of the pipeline and of its real workers, and at the end of
    each of them.

    The response, the nodes, the runs of each node and the questions must stay the same, apart from times, ids and costs. Costs may differ,
    because a call without side effects is made again if a crash interrupts it. A stubbed worker must be called as often as without a crash,
    because each call counts as a side effect. The same is true for stubbed tools whose effect is `write`.

    Returns the number of crashes. Raises `CrashDiffers` at the first crash that changes something. The arguments mean the same as in
    `pipeline_kit.run`, among them the files and stubs of workers (`workers`), the answers of tools (`tools`) and the decisions of people
    (`decisions`); stubs that are callables must not remember earlier runs.
    """
    asked = {"inputs": dict(inputs), **request}

    def once(crash: EndingCrash) -> Compared:
        played = play(pipeline, asked, workers or {}, tools or {}, decisions or {}, name, worker_settings, timeout, crash, again)
        return _compared(_ran(asyncio.run(played)))

    counting = EndingCrash(0, BEFORE)
    straight = once(counting)
    writes, ends = counting.seen, counting.ended
    places = [(point, when) for point in range(1, writes + 1) for when in (BEFORE, AFTER)]
    places += [(point, LAST) for point in range(1, ends + 1)]
    for point, when in places:
        crashed = once(EndingCrash(point, when))
        for what in straight.__struct_fields__:
            was, now = getattr(straight, what), getattr(crashed, what)
            if was != now:
                raise CrashDiffers(f"A crash {_told(point, when, writes, ends)} changes {_WORDS[what]}: it was {was!r}, now it is {now!r}.")
    return len(places)


class Compared(msgspec.Struct, frozen=True):
    """The parts of a run that no crash may change, without times, ids and costs."""

    response: Any
    nodes: Any
    runs: Any
    questions: Any
    effects: Any


_WORDS = {
    "response": "the response",
    "nodes": "the nodes",
    "runs": "the runs of a node",
    "questions": "what people were asked",
    "effects": "the side effects",
}


def _told(point: int, when: str, writes: int, ends: int) -> str:
    return f"at end {point} of {ends}" if when == LAST else f"{when} write {point} of {writes}"


def _ran(seen: ObservedRun) -> PipelineRan:
    return PipelineRan(
        seen.response,
        {node_status.node: node_status for node_status in seen.nodes},
        {node_status.node: tuple(one for one in seen.runs if one.node == node_status.node) for node_status in seen.nodes},
        tuple(seen.events),
        tuple(seen.questions),
        tuple(seen.stub_calls),
        tuple(seen.calls),
        tuple(seen.writes),
    )


def _compared(ran: PipelineRan) -> Compared:
    """The parts that must be the same. Runs, questions and calls are sorted, because their order may differ if they happen at the same
    time."""
    effects = sorted(map(repr, (*ran.stub_calls, *ran.writes)))
    return Compared(
        _meaning(ran.response),
        {name: (node_status.state, node_status.round, node_status.error_code) for name, node_status in ran.nodes.items()},
        {name: sorted(repr(msgspec.structs.replace(one, run_id="")) for one in runs) for name, runs in ran.runs.items()},
        sorted(repr(_asked(one)) for one in ran.questions),
        effects,
    )


def _asked(one: Approval) -> tuple[Any, ...]:
    votes = [(vote.person, vote.verdict, vote.chose) for vote in one.votes]
    about = (one.node, one.tool, one.kind, one.question, _without_ids(one.arguments), one.state)
    return (*about, one.approvers, votes, [part.added for part in one.chain])


def _meaning(response: Response) -> dict[str, Any]:
    """A response without its ids, times and costs, which differ from run to run, and without its approvals, which are compared one by
    one."""
    document = meaning(response)
    document.pop("approvals", None)  # the questions are compared one by one
    plain: dict[str, Any] = _without_ids(document)
    return plain


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(inner) for name, inner in value.items() if name != "run_id"}
    return [_without_ids(inner) for inner in value] if isinstance(value, list) else value


__all__ = ["Crash", "CrashDiffers", "NodeRun", "PipelineRan", "crash_everywhere", "run"]
