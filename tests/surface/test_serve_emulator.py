"""The reverse direction: handlers of `holdfast.durable` with the official emulator's web server as their service."""

from __future__ import annotations

import copy
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from aws_durable_execution_sdk_python.lambda_service import OperationStatus, OperationType
from aws_durable_execution_sdk_python_testing.execution import Execution

from holdfast.durable.execution import DurableFunction
from tests.flow.away import assert_same, at_home, coloured, handler
from tests.flow.cases import CASES, OURS, Case, Sdk
from tests.flow.official.gaps import as_the_runner_tells
from tests.flow.official.running import Ending
from tests.flow.test_official_runner import ALIKE
from tests.flow.test_official_sdk import assert_as_promised
from tests.surface.emulator import emulator, emulator_program


def functions(case: Case, sdk: Sdk, colour: str = "def") -> dict[str, DurableFunction]:
    return {"handler": handler(case, sdk, colour), **(case.others(sdk) if case.others else {})}


def there(case: Case, colour: str) -> Ending:
    """Run a case on the emulator."""
    sdk = Sdk(OURS)
    with emulator(functions(case, sdk, colour)) as running:
        running.start(case.event)
        if case.early:
            running.until(_holding, "the handler to be inside its step")
            for name, deed in case.early.items():
                running.do(deed, running.open_callbacks()[name])
            sdk.gate.set()
        running.drive(copy.deepcopy(case.script))
        return running.ending()


def _holding(execution: Execution) -> bool:
    return any(op.operation_type is OperationType.STEP and op.status is OperationStatus.STARTED for op in execution.operations)


@coloured(ALIKE)
async def test_a_handler_of_ours_runs_on_the_official_emulator_as_on_our_engine(case: Case, colour: str) -> None:
    ending = there(case, colour)
    assert_as_promised(case, ending)
    home = await at_home(case)
    assert_same(case, ending, Ending(home.status, home.payload, as_the_runner_tells(home.history)))


# --- the emulator as its users have it: a program of its own, in real time

NAMED = [
    "a_step_is_retried_until_it_succeeds",
    "rich_values_survive_a_replay",
    "a_callback_brings_its_answer_as_it_came",
    "wait_for_callback_submits_and_waits",
    "a_condition_is_polled_until_it_is_met",
    "branches_one_at_a_time_keep_the_order_of_events",
    "map_runs_a_function_for_every_item",
    "child_contexts_nest",
    "an_invoke_has_serdes_for_both_ways",
    "branches_invoke_side_by_side",
    "a_plain_function_is_invoked_like_a_durable_one",
]

_IN_LINE = 5


def operations(ending: Ending) -> dict[str, list[tuple[str, str | None]]]:
    """What was recorded of each operation, in order; those of the execution itself under one key."""
    told: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for event in ending.history:
        if event["EventType"] != "InvocationCompleted":
            own = event["EventType"].startswith("Execution")
            told["the execution" if own else event["Id"]].append((event["EventType"], None if own else event.get("Name")))
    return told


@pytest.mark.long
async def test_handlers_of_ours_leave_the_same_operations_on_the_emulators_own_program() -> None:
    """Several at once, since they wait in real time; no more than the emulator keeps in line, for it hangs up on others."""
    cases = [(CASES[name], colour) for name in NAMED for colour in ("def", "async")]
    invoked = functions(CASES["branches_invoke_side_by_side"], Sdk(OURS))
    with emulator_program(invoked) as program, ThreadPoolExecutor(_IN_LINE) as threads:

        def run(case: Case, colour: str) -> Ending:
            name = f"{case.name[:40]}-{colour}"
            return program.run(name, handler(case, Sdk(OURS), colour), case.event, copy.deepcopy(case.script))

        endings = [threads.submit(run, case, colour) for case, colour in cases]
        for (case, _), ending in zip(cases, endings, strict=True):
            assert_as_promised(case, ending.result())
            assert operations(ending.result()) == operations(await at_home(case))
