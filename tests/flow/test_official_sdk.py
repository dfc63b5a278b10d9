"""The official SDK and ours on one engine: the same handlers, the same results, the same histories."""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Status, Type
from tests.flow.cases import CASES, OFFICIAL, OURS, Case, Sdk, some_quick
from tests.flow.official.forgetful import forgetful
from tests.flow.official.running import Ending, MakeHost, Running, official, opened, ours
from tests.parts import one_of_each

ALL = list(CASES.values())
WITH_TWIN = [case for case in ALL if case.twin is not None]
RESTING = [case for case in ALL if case.rests]

every_case = some_quick(ALL)
every_twin = some_quick(WITH_TWIN)
every_resting_case = some_quick(RESTING)


def by_official(case: Case, sdk: Sdk, *, page: int = 1000) -> MakeHost:
    return official(case.make(sdk), page=page)


def by_ours(case: Case, sdk: Sdk) -> MakeHost:
    return ours(case.make(sdk))


def by_ours_async(case: Case, sdk: Sdk, *, resting: int) -> MakeHost:
    assert case.twin is not None
    return ours(case.twin(sdk), resting=resting)


def others(case: Case, sdk: Sdk) -> list[DurableFunction]:
    return list(case.others(sdk).values()) if case.others else []


async def run(case: Case, sdk: Sdk, host: MakeHost) -> Ending:
    async with opened(host, others=others(case, sdk)) as running:
        execution = await running.start(case.event)
        await answer_early(case, sdk, running, execution)
        await running.drive(execution, copy.deepcopy(case.script))
        return running.ending(execution)


async def answer_early(case: Case, sdk: Sdk, running: Running, execution: str) -> None:
    """Answer while the handler holds still in a step that is on record."""
    if not case.early:
        return

    def holding() -> bool:
        operations = running.engine.store.operations(execution)
        return any(op.type is Type.STEP and op.status is Status.STARTED for op in operations)

    await running.until(holding, "the handler to be inside its step")
    for name, deed in case.early.items():
        await running.do(deed, running.open_callbacks(execution)[name])
    sdk.gate.set()


def assert_as_promised(case: Case, ending: Ending) -> None:
    if case.error is None:
        assert ending.status is ExecutionStatus.SUCCEEDED, ending.payload
        assert json.loads(ending.payload or "null") == case.result
    else:
        assert ending.status is ExecutionStatus.FAILED
        error = json.loads(ending.payload or "{}")
        assert (error.get("ErrorType"), error.get("ErrorMessage")) == case.error
    assert [event["EventId"] for event in ending.history] == list(range(1, len(ending.history) + 1))


def assert_same_history(case: Case, one: Ending, other: Ending, *, stays: bool = False) -> None:
    if case.side_by_side:
        # Which of two racing branches writes first is not promised; what each of them writes, and in which order, is.
        first, second = by_operation(one.history), by_operation(other.history)
        if case.luck or case.sooner:
            first.pop("invocations")
            second.pop("invocations")
        elif stays:  # the two colours go on in different ways, so only what the operations tell is the same
            assert 0 < len(first.pop("invocations")) <= len(second.pop("invocations"))
        assert first == second
    elif case.cut_off:
        assert without_lone_starts(one.history) == without_lone_starts(other.history)
    else:
        assert one.history == other.history


def by_operation(history: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Each operation's own events in order; those of the execution under one key. EventIds, which tell the order of all, left out."""
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in history:
        told[event.get("Id", "invocations")].append({key: value for key, value in event.items() if key != "EventId"})
    return told


def without_lone_starts(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history without the START of operations of which nothing more is told, and so without EventIds."""
    told = Counter(event.get("Id") for event in history)
    kept = [event for event in history if told[event.get("Id")] > 1 or event["EventType"] not in ("StepStarted", "ContextStarted")]
    return [{key: value for key, value in event.items() if key != "EventId"} for event in kept]


@pytest.fixture(scope="module")
def official_endings() -> dict[str, Ending]:
    """What the official SDK left, run once for each case."""
    return {}


async def official_ending(case: Case, kept: dict[str, Ending]) -> Ending:
    if case.name not in kept:
        sdk = Sdk(OFFICIAL)
        kept[case.name] = await run(case, sdk, by_official(case, sdk))
    return kept[case.name]


@every_case
async def test_the_official_sdk_runs_on_our_engine(case: Case, official_endings: dict[str, Ending]) -> None:
    assert_as_promised(case, await official_ending(case, official_endings))


@every_case
async def test_our_def_handler_leaves_the_official_history(case: Case, official_endings: dict[str, Ending]) -> None:
    sdk = Sdk(OURS)
    ending = await run(case, sdk, by_ours(case, sdk))
    assert_as_promised(case, ending)
    assert_same_history(case, ending, await official_ending(case, official_endings))


@pytest.mark.parametrize("resting", [pytest.param(100, id="resting"), pytest.param(0, id="not resting")])
@every_twin
async def test_our_async_handler_leaves_the_official_history(case: Case, resting: int, official_endings: dict[str, Ending]) -> None:
    sdk = Sdk(OURS)
    ending = await run(case, sdk, by_ours_async(case, sdk, resting=resting))
    assert_as_promised(case, ending)
    assert_same_history(case, ending, await official_ending(case, official_endings), stays=case.stays)


async def test_an_async_branch_goes_on_within_the_invocation_in_which_it_is_answered() -> None:
    case, sdk = CASES["a_branch_is_answered_while_another_one_works"], Sdk(OURS)
    ending = await run(case, sdk, by_ours_async(case, sdk, resting=100))
    assert sum(event["EventType"] == "InvocationCompleted" for event in ending.history) == 1


OWN_WORDS = "its result tells what this very invocation did, which a replay does not repeat"
BESIDE = "the end of one branch interrupts the at-most-once step of the other, which is then not run again"
ASLEEP = "the official SDK sleeps in process for one branch's timer, and the clock of these tests moves only when it rests"
REPLAYED_OTHERWISE: dict[str, dict[str, str]] = {
    "the_end_of_the_replay_is_seen_at_the_same_place": dict.fromkeys(["def", "async", "official"], OWN_WORDS),
    "a_batch_ends_when_its_author_says": dict.fromkeys(["def", "async", "official"], OWN_WORDS),
    "a_branch_is_answered_while_another_one_works": dict.fromkeys(["def", "async", "official"], BESIDE),
    "a_branch_retries_its_step": {"official": ASLEEP},
    "branches_poll_beside_each_other": {"official": ASLEEP},
}
"""Cases that cannot have the same result when they are replayed at every step, and why."""
REPLAYED = [
    (case, colour) for case in ALL for colour in ("def", "async", "official") if colour not in REPLAYED_OTHERWISE.get(case.name, {})
]


@pytest.mark.parametrize(
    "case, colour",
    one_of_each(REPLAYED, kind=lambda one: (one[0].section, one[1]), name=lambda one: f"{one[0].name}-{one[1]}", several=True),
)
async def test_a_replay_at_every_step_comes_to_the_same_end(case: Case, colour: str, official_endings: dict[str, Ending]) -> None:
    sdk = Sdk(OFFICIAL if colour == "official" else OURS)
    if colour == "official":
        host = by_official(case, sdk)
    else:
        host = by_ours(case, sdk) if colour == "def" or case.twin is None else by_ours_async(case, sdk, resting=100)
    ending = await run(case, sdk, forgetful(host))
    assert_as_promised(case, ending)
    told, straight = ending.history, (await official_ending(case, official_endings)).history
    if case.cut_off:
        told, straight = without_lone_starts(told), without_lone_starts(straight)
    assert by_operation(told) | {"invocations": []} == by_operation(straight) | {"invocations": []}


@every_resting_case
async def test_the_official_sdk_fetches_its_state_page_by_page(case: Case, official_endings: dict[str, Ending]) -> None:
    sdk = Sdk(OFFICIAL)
    ending = await run(case, sdk, by_official(case, sdk, page=1))
    assert_same_history(case, ending, await official_ending(case, official_endings))


async def handed_over(case: Case, first: MakeHost, second: MakeHost, where: Path, after: int) -> Ending:
    """Run with one engine until the execution has rested `after` times, close it, and go on with the other on the same file."""
    clock = VirtualClock(skipping=False)
    script = copy.deepcopy(case.script)
    async with opened(first, others=others(case, Sdk(OURS)), where=str(where), clock=clock) as running:
        execution = await running.start(case.event)
        await running.drive(execution, script, stops_at=after)
        assert running.header(execution).status is ExecutionStatus.RUNNING
    async with opened(second, others=others(case, Sdk(OURS)), where=str(where), clock=clock) as running:
        await running.drive(execution, script)
        return running.ending(execution)


@every_resting_case
async def test_our_handler_finishes_what_the_official_sdk_began(case: Case, tmp_path: Path, official_endings: dict[str, Ending]) -> None:
    for after in range(1, case.rests + 1):
        theirs, mine = Sdk(OFFICIAL), Sdk(OURS)
        ending = await handed_over(case, by_official(case, theirs), by_ours(case, mine), tmp_path / f"{after}.db", after)
        assert_as_promised(case, ending)
        assert_same_history(case, ending, await official_ending(case, official_endings))


@every_resting_case
async def test_the_official_sdk_finishes_what_our_handler_began(case: Case, tmp_path: Path, official_endings: dict[str, Ending]) -> None:
    for after in range(1, case.rests + 1):
        theirs, mine = Sdk(OFFICIAL), Sdk(OURS)
        first = by_ours_async(case, mine, resting=100) if case.twin else by_ours(case, mine)
        ending = await handed_over(case, first, by_official(case, theirs), tmp_path / f"{after}.db", after)
        assert_as_promised(case, ending)
        assert_same_history(case, ending, await official_ending(case, official_endings))
