"""Plugins are told by our functions, of both colours, what the official SDK's functions tell them, invocation by invocation."""

from __future__ import annotations

import copy

import pytest

from tests.flow.cases import CASES, OFFICIAL, OURS, Case, Sdk, some_quick
from tests.flow.official.running import MakeHost, official, opened, ours
from tests.flow.recording import Recording, Told, by_operation, changes, comparable, with_plugins, without_second_runs
from tests.flow.test_official_sdk import answer_early, others

# What differs by nature, besides ids and the machine's time.
RACES = {
    "branches_invoke_side_by_side": "which invocation learns of which child is a race between executions",
    "branches_wait_for_callbacks": "which invocation of the official SDK learns of which answer depends on its threads on a busy machine",
    "a_branch_is_answered_while_another_one_works": "a live invocation gets the answer: our coroutine goes on at once (Case.sooner)",
}
NO_LIMIT = {"a_result_too_large_for_an_answer_is_kept": "its text is told: in process an answer has no limit, so nothing stands in for it"}
LOST_BY_A_REPLAY = {
    "a_block_has_the_childs_config_and_may_be_a_branch": "the official SDK takes what stands behind a virtual context for new, so a replay "
    "tells nothing of the open operations there; a resting coroutine has not lost them"
}

COMPARED = [case for case in CASES.values() if case.name not in RACES]
WITH_TWIN = [case for case in COMPARED if case.twin is not None]
every_case = some_quick(COMPARED)
every_twin = some_quick(WITH_TWIN)


class Record:
    """What the plugins of one execution were told."""

    def __init__(self, case: Case, execution: str, invocations: list[list[Told]]) -> None:
        self.case = case
        self.told = [comparable(told, execution) for told in invocations]
        self.changes = [changes(told) for told in invocations]
        for told in self.told:
            for _, info in told:
                if case.name in NO_LIMIT:
                    info.pop("execution_result", None)
                if case.cut_off:  # whether the last START is still written is a race inside the official SDK
                    info.pop("operations", None)


async def run(case: Case, sdk: Sdk, host: MakeHost) -> str:
    async with opened(host, others=others(case, sdk)) as running:
        execution = await running.start(case.event)
        await answer_early(case, sdk, running, execution)
        await running.drive(execution, copy.deepcopy(case.script))
        return execution


async def recorded(case: Case, root: str, *, resting: int | None = None) -> Record:
    """Run a case and write down what its plugin is told; `resting` is for the `async def` form."""
    recording = Recording(root)
    sdk = with_plugins(Sdk(root), recording)
    if root == OFFICIAL:
        host = official(case.make(sdk))
    elif resting is None:
        host = ours(case.make(sdk))
    else:
        assert case.twin is not None
        host = ours(case.twin(sdk), resting=resting)
    return Record(case, await run(case, sdk, host), recording.invocations)


@pytest.fixture(scope="module")
def kept() -> dict[str, Record]:
    """What the official SDK told, run once for each case."""
    return {}


async def told_by_official(case: Case, kept: dict[str, Record]) -> Record:
    if case.name not in kept:
        kept[case.name] = await recorded(case, OFFICIAL)
    return kept[case.name]


def assert_same(ours: Record, official: Record) -> None:
    """The same in every invocation: all in one order, but for branches that run side by side."""
    if ours.case.side_by_side:
        assert [by_operation(told) for told in ours.told] == [by_operation(told) for told in official.told]
    else:
        assert ours.told == official.told
    if not ours.case.cut_off:
        assert ours.changes == official.changes


@every_case
async def test_a_def_handler_tells_plugins_what_the_official_one_tells(case: Case, kept: dict[str, Record]) -> None:
    assert_same(await recorded(case, OURS), await told_by_official(case, kept))


@every_twin
async def test_an_async_handler_tells_plugins_what_the_official_one_tells(case: Case, kept: dict[str, Record]) -> None:
    assert_same(await recorded(case, OURS, resting=0), await told_by_official(case, kept))


@every_twin
async def test_a_resting_handler_tells_the_plugins_of_each_invocation_what_a_replay_tells(case: Case, kept: dict[str, Record]) -> None:
    resting, replayed = await recorded(case, OURS, resting=100), copy.copy(await told_by_official(case, kept))
    replayed.told = without_second_runs(replayed.told)
    assert resting.told == without_second_runs(resting.told), "what has ended is not run again"
    if case.name not in LOST_BY_A_REPLAY:
        assert_same(resting, replayed)
