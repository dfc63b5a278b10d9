"""Every kind of node with every outcome, by a real run: straight, replayed at every rest, and crashed at every write."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from holdfast.pipelines.graph.graph import AnyNode
from holdfast.testing.crashing import AFTER, BEFORE, LAST, Crash
from tests.pipelines.cases import Case, expected, ids, run_case
from tests.pipelines.rows_of_gates import GATE, HUMAN
from tests.pipelines.rows_of_loops import NESTED, SUPERVISE, UNTIL
from tests.pipelines.rows_of_merges import MERGE, ROUTE, UNDO
from tests.pipelines.rows_of_outcomes import KINDS, NOT_THERE, PAIRS, PRODUCT
from tests.pipelines.rows_of_workers import MAP, STEP, WAIT, WORKER

WRITTEN = (*WORKER, *MAP, *MERGE, *GATE, *HUMAN, *ROUTE, *STEP, *WAIT, *UNDO, *SUPERVISE, *UNTIL, *NESTED)
"""The rows that are written by hand: what a kind has of its own."""
TABLE = (*WRITTEN, *(case for case in PRODUCT if case.id not in {written.id for written in WRITTEN}))
CRASHED = [
    "worker-fallback",
    "worker-skip-partial",
    "worker-escalate-retry",
    "worker-escalate-use",
    "worker-cancel",
    "worker-node-timeout",
    "worker-run-timeout",
    "worker-not-served",
    "map-partial",
    "map-fail",
    "map-cancel",
    "map-undo-fails-then-retry",
    "merge-conflict-escalate-use",
    "merge-resolver",
    "gate-escalate-retry-then-silence",
    "gate-revise-too-often",
    "gate-revise-rules-with-a-node-between",
    "human-edits",
    "human-rejects-escalate-retry",
    "human-silent-fail",
    "human-run-timeout-undoes",
    "route-then-merge",
    "wait-timeout",
    "wait-while-another-node-fails",
    "undo-in-reverse",
    "undo-on-cancel",
    "undo-fails-left",
    "undo-siblings-end-first",
    "undo-every-round",
    "supervise-escalate-retry",
    "supervise-cancel",
    "supervise-undo-fails-then-retry",
    "until-escalate-retry",
    "until-timeout",
    "pipeline-cancel-undoes-inside",
]
"""The rows written by hand that are crashed: one for each way in which a run can wait, go on and end."""
IMPURE = "step-escalate-retry"
"""Its step fails once and not again, which no pure function does: a crash calls a step again."""
CRASHES = [case for case in TABLE if case.id in CRASHED or (case in PRODUCT and case.id != IMPURE)]
QUICK = ("gate-revise-rules-with-a-node-between", "undo-siblings-end-first", "wait-run-timeout")


def test_the_table_has_every_kind_of_node_with_every_outcome() -> None:
    """A pair without a row says why it has none."""
    known = {case.id for case in TABLE}
    assert set(KINDS) == {str(kind.__struct_config__.tag) for kind in get_args(AnyNode)}
    assert [pair for pair in PAIRS if ("-".join(pair) in known) == (pair in NOT_THERE)] == []
    assert NOT_THERE.keys() <= set(PAIRS)
    assert len(known) == len(TABLE)


@pytest.mark.parametrize("case", TABLE, ids=ids(TABLE))
async def test_each_node_has_the_outcome_that_its_row_says(case: Case, tmp_path: Path) -> None:
    expected(case, await run_case(case, tmp_path))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id, marks=[] if case.id in CRASHED else [pytest.mark.long]) for case in TABLE])
async def test_a_run_that_replays_at_every_rest_has_the_same_outcome(case: Case, tmp_path: Path) -> None:
    expected(case, await run_case(case, tmp_path, resting=0))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id, marks=[] if case.id in QUICK else [pytest.mark.long]) for case in CRASHES])
async def test_a_crash_at_any_write_changes_nothing_and_does_nothing_twice(case: Case, tmp_path: Path) -> None:
    counting = Crash(0, BEFORE)
    straight = await run_case(case, tmp_path, crash=counting)
    expected(case, straight)
    points = counting.seen
    for point, when in [*((point, when) for point in range(1, points + 1) for when in (BEFORE, AFTER)), (points, LAST)]:
        crashed = await run_case(case, tmp_path, resting=0, crash=Crash(point, when))
        assert straight == crashed, f"a crash {when} write {point} of {points}"
