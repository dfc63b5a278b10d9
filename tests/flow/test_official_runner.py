"""Our SDK away from our engine: on the official testing package's runner the same handlers have the same results and histories."""

from __future__ import annotations

import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aws_durable_execution_sdk_python.lambda_service import OperationStatus, OperationType
from aws_durable_execution_sdk_python_testing.execution import Execution

from holdfast.model.execution import ExecutionStatus
from tests.flow.away import COLOURED, assert_same, at_home, coloured, handler
from tests.flow.cases import CASES, OFFICIAL, OURS, Case, Decorator, Sdk, _as_def, now
from tests.flow.official.gaps import GAPS, Gap, as_the_runner_tells
from tests.flow.official.runner import RunnerDied, official_runner, plain_runner
from tests.flow.official.running import PATIENCE_SECONDS, Ending
from tests.flow.test_official_sdk import assert_as_promised

# Cases that end differently there, because of the runner. The official SDK ends in the same way there.
OTHERWISE: dict[str, str] = {
    "an_empty_answer_is_not_no_answer": "an empty answer is kept as none",
    "an_invocation_error_is_tried_again_and_again": "five tries that are not told; an error that escapes is named by its class",
    "an_invoked_functions_result_comes_back": "an ARN in our own region is not accepted",
    "leaving_the_process_is_a_crash": "the runner's loop does not survive a SystemExit",
    "leaving_the_process_in_a_step_is_a_crash": "the runner's loop does not survive a SystemExit",
    "what_nobody_hosts_cannot_be_invoked": "there are no versions, and an unknown function is told in other words",
}
ALIKE = [(case, colour) for case, colour in COLOURED if case.name not in OTHERWISE]
UNLIKE = [(case, colour) for case, colour in COLOURED if case.name in OTHERWISE]


def there(case: Case, root: str = OURS, colour: str = "def") -> Ending:
    """Run a case on the official runner."""
    sdk = Sdk(root)
    with official_runner(handler(case, sdk, colour), case.others(sdk) if case.others else {}) as runner:
        runner.start(case.event)
        if case.early:
            runner.until(_holding, "the handler to be inside its step")
            for name, deed in case.early.items():
                runner.do(deed, runner.open_callbacks()[name])
            sdk.gate.set()
        runner.drive(copy.deepcopy(case.script))
        return runner.ending()


def _holding(execution: Execution) -> bool:
    return any(op.operation_type is OperationType.STEP and op.status is OperationStatus.STARTED for op in execution.operations)


@coloured(ALIKE)
async def test_a_handler_of_ours_runs_on_the_official_runner_as_on_our_engine(case: Case, colour: str) -> None:
    ending = there(case, colour=colour)
    assert_as_promised(case, ending)
    home = await at_home(case)
    assert_same(case, ending, Ending(home.status, home.payload, as_the_runner_tells(home.history)))


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.name)
async def test_a_gap_of_the_official_runner_is_still_open(gap: Gap) -> None:
    case = CASES[gap.case]
    home, ending = await at_home(case), there(case)
    without = as_the_runner_tells(home.history, [other for other in GAPS if other is not gap])
    with pytest.raises(AssertionError):
        assert_same(case, ending, Ending(home.status, home.payload, without))


@coloured(UNLIKE)
def test_where_the_official_runner_is_in_the_way_the_official_sdk_comes_to_the_same(case: Case, colour: str) -> None:
    theirs, ours = end_or_death(case, OFFICIAL, "def"), end_or_death(case, OURS, colour)
    if theirs is None or ours is None:
        assert theirs is ours
    else:
        assert without_class(ours) == without_class(theirs)
        with pytest.raises(AssertionError):
            assert_as_promised(case, ours)


def end_or_death(case: Case, root: str, colour: str) -> Ending | None:
    """None if the runner did not live to see the end."""
    try:
        return there(case, root, colour)
    except RunnerDied:
        return None


def without_class(ending: Ending) -> tuple[Any, list[dict[str, Any]]]:
    """How it ended, but for the class of an error that escaped from the last invocation: it is one of ours here, of theirs there."""
    payload = json.loads(ending.payload or "null")
    *history, last = copy.deepcopy(ending.history)
    if ending.status is ExecutionStatus.FAILED:
        del payload["ErrorType"]
        del last["ExecutionFailedDetails"]["Error"]["Payload"]["ErrorType"]
    return payload, [*history, last]


# --- the runner as its users have it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["def", "async"])
@pytest.mark.parametrize(
    "name",
    [
        "steps_return_what_they_returned",
        "several_waits_come_one_after_the_other",
        "a_step_is_retried_until_it_succeeds",
        "branches_wait_for_the_clock",
        "a_condition_is_polled_until_it_is_met",
        "a_block_is_run_again_until_it_succeeds",
    ],
)
def test_the_runner_needs_nothing_but_the_handler(name: str, colour: str) -> None:
    case, sdk = CASES[name], Sdk(OURS)
    with plain_runner(handler(case, sdk, colour)) as runner:
        result = runner.run(json.dumps(case.event), execution_timeout=30)
    assert result.status.value == "SUCCEEDED", result.error
    assert json.loads(result.result or "null") == case.result


def held(coloured: Decorator, holding: threading.Event, gate: threading.Event, runs: list[str]) -> Any:
    sdk = Sdk(OURS)

    def hold(_: Any) -> str:
        runs.append("hold")
        holding.set()
        assert gate.wait(PATIENCE_SECONDS)
        return "held"

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        first = await now(context.step(hold, config=sdk.step_config(step_semantics=sdk.at_most_once)))
        return [first, await now(context.step(lambda _: "after"))]

    return handler


@pytest.mark.parametrize("coloured", [pytest.param(_as_def, id="def"), pytest.param(lambda func: func, id="async")])
def test_a_pause_takes_the_token_and_the_next_invocation_goes_on(coloured: Decorator) -> None:
    holding, gate, runs = threading.Event(), threading.Event(), list[str]()
    with plain_runner(held(coloured, holding, gate, runs)) as runner, ThreadPoolExecutor(1) as elsewhere:
        arn = runner.run_async("null")
        assert holding.wait(PATIENCE_SECONDS)
        pause = elsewhere.submit(runner.pause_execution, arn, PATIENCE_SECONDS)
        never = threading.Event()
        while not runner._store.load(arn).is_paused:
            never.wait(0.001)
        gate.set()
        pause.result()  # the invocation came to its end, as PENDING
        assert not runner._store.load(arn).is_complete
        runner.resume_execution(arn)
        result = runner.wait_for_result(arn)
    assert (result.status.value, result.result, runs) == ("SUCCEEDED", '["held", "after"]', ["hold"])
