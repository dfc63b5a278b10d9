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
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing.crashing import AFTER, BEFORE, LAST, Crash, CrashDiffers
from holdfast.testing.node_runs import NodeRun
from holdfast.testing.pipeline_stage import EndingCrash, PipelineRan, play
from holdfast.testing.worker_kit import meaning
from holdfast.workers.approvals import Approval

_PATIENCE = 60.0


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
    return asyncio.run(play(pipeline, asked, workers or {}, tools or {}, decisions or {}, name, worker_settings, timeout, None, again))


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

    def once(crash: EndingCrash) -> dict[str, Any]:
        played = play(pipeline, asked, workers or {}, tools or {}, decisions or {}, name, worker_settings, timeout, crash, again)
        return _compared(asyncio.run(played))

    counting = EndingCrash(0, BEFORE)
    straight = once(counting)
    writes, ends = counting.seen, counting.ended
    places = [(point, when) for point in range(1, writes + 1) for when in (BEFORE, AFTER)]
    places += [(point, LAST) for point in range(1, ends + 1)]
    for point, when in places:
        crashed = once(EndingCrash(point, when))
        for what, was in straight.items():
            if was != (now := crashed[what]):
                raise CrashDiffers(f"A crash {_told(point, when, writes, ends)} changes {what}: it was {was!r}, now it is {now!r}.")
    return len(places)


def _told(point: int, when: str, writes: int, ends: int) -> str:
    return f"at end {point} of {ends}" if when == LAST else f"{when} write {point} of {writes}"


def _compared(ran: PipelineRan) -> dict[str, Any]:
    """The parts of a run that no crash may change, without times, ids and costs. Runs, questions and calls are sorted, because their order
    may differ if they happen at the same time."""
    return {
        "the response": _meaning(ran.response),
        "the nodes": {name: (node_status.state, node_status.round, node_status.error_code) for name, node_status in ran.nodes.items()},
        "the runs of a node": {
            name: sorted(repr(msgspec.structs.replace(one, run_id="")) for one in runs) for name, runs in ran.runs.items()
        },
        "what people were asked": sorted(repr(_asked(one)) for one in ran.questions),
        "the side effects": sorted(map(repr, (*ran.stub_calls, *ran.writes))),
    }


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
