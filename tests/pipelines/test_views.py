"""What people see of a run: notes of nodes, counts of a map while it runs, and the lines and the table that `holdfast run` prints."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from holdfast.cli.live_pipeline import NodeLines, table_of
from holdfast.contract.rules import Rule
from holdfast.contract.terms import RateLimit
from holdfast.descriptions.pipeline_view import PipelineView, pipeline_view
from holdfast.pipelines.draw.captions import Counts, money
from holdfast.pipelines.graph.graph import After, AnyNode, GateNode, Graph, HumanNode, MapNode, WorkerNode
from holdfast.pipelines.record.notes import note_of
from holdfast.pipelines.scene import shards
from holdfast.store.seam import Filter
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import Policy
from holdfast.workers.run_lookup import find_run
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import out, ref

SKIP: dict[str, Any] = {"broken_part": "skip"}
ERROR = {"error_code": "gone", "message": "There is no page."}


@pytest.mark.parametrize(
    "document, told",
    [
        (None, None),
        ({"status": "ok", "outputs": {}}, None),
        ({"counts": {}, "failed": [{"index": 5, "error": ERROR}]}, "item 5: gone: There is no page."),
        ({"counts": {}, "failed": [{"index": n, "error": None} for n in range(5)]}, "and 2 more"),
        ({"counts": {}, "failed": {"$artifact": "x"}}, None),
        ({"conflicts": [{"path": ".a"}], "missing": ["prices"]}, "1 conflict: .a; missing: prices"),
        ({"conflicts": [{"path": ""}, {"path": ".b"}, {"path": ".c"}, {"path": ".d"}]}, "4 conflicts: the whole, .b, .c, …"),
        ({"verdict": "allow", "reasons": [{"code": "no_prices", "message": "None."}]}, "no_prices: None."),
        ({"verdict": "approve", "decided_by": "ann", "comment": "fine"}, "approved by ann: fine"),
        ({"label": "left"}, "chose left"),
        ({"turns": 2, "choices": [{"choice": "search"}, {"choice": "finish"}], "outputs": {}}, "chose search, finish"),
        ({"turns": 9, "choices": [{"choice": f"c{n}"} for n in range(9)]}, "c7, c8 (the last of 9)"),
        ({"times": 3, "outputs": {}}, "3 runs"),
        ({"label": "\x1b[31m" + "x" * 1000}, "chose �[31mx"),
    ],
)
def test_a_node_that_ended_says_what_else_there_is_to_know(document: dict[str, Any] | None, told: str | None) -> None:
    note = note_of(document)
    assert (note is None) == (told is None)
    assert told is None or note is None or (told in note and len(note) <= 300)


def test_money_below_a_cent_is_not_nothing() -> None:
    assert [money(Decimal(cost)) for cost in ("0", "0.0021", "0.42", "1234.5")] == ["$0.00", "$0.0021", "$0.42", "$1,234.50"]


def readable(*nodes: AnyNode) -> Graph:
    """A graph that can be read from its text: it names no package of steps."""
    return msgspec.structs.replace(graph_of(*nodes), steps=None)


def view_of(made: Stage) -> PipelineView:
    """The one run of the pipeline `p`."""
    store = made.engine._store
    (run,) = store.list(Filter(function="p", limit=10))[-1:]
    view = pipeline_view(store, *find_run(store, run.id, LOCAL))
    assert view is not None
    return view


async def test_an_item_that_waits_for_a_rate_has_not_failed(tmp_path: Path) -> None:
    seen: list[Counts] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        seen.append(view_of(made).counts["m"])
        return {}

    graph = readable(MapNode(name="m", worker="w", over=[1, 2, 3], inputs={"n": ref("item")}, at_most=3, at_once=3))
    async with stage(graph, worker("w", body, rate_limit=RateLimit(1, 60)), folder=tmp_path, clock=PatientClock()) as made:
        await made.run()
        assert view_of(made).counts == {"m": Counts(3, 3, 0)}
    assert [(counts.ok, counts.failed) for counts in seen] == [(0, 0), (1, 0), (2, 0)]


async def test_an_item_counts_once_however_often_its_worker_or_a_fallback_runs(tmp_path: Path) -> None:
    """Item 0 goes well, item 1 never, item 2 with its second fallback; the same again in the next round."""
    seen: list[tuple[int, int, int]] = []

    def body(*good: int) -> Any:
        async def run(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
            counts = view_of(made).counts["m"]
            seen.append((counts.total, counts.ok, counts.failed))
            if inputs["n"] not in good:
                raise WorkerError("broken_part", "no")
            return {"n": inputs["n"]}

        return run

    node = MapNode(name="m", worker="a", fallback=("b", "c"), over=[0, 1, 2], inputs={"n": ref("item")}, at_most=3, at_once=1, tolerate=1)
    rule = Rule(path="", op="length_at_least", value=3, code="few", message="Too few.")
    graph = readable(node, GateNode(name="g", candidate=ref("m", "ok"), rules=(rule,), revise="m", rounds=1, on_block="skip"))
    workers = [worker("a", body(0)), worker("b", body()), worker("c", body(0, 2))]
    async with stage(graph, *workers, folder=tmp_path) as made:
        await made.run()
        assert view_of(made).counts == {"m": Counts(3, 2, 1)}
    once = [(3, 0, 0), *[(3, 1, 0)] * 3, *[(3, 1, 1)] * 3]
    assert seen == [*once, *once]


async def test_items_of_shards_that_are_over_count_also_if_their_pages_are_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_ITEMS", 2)
    seen: list[tuple[int, int, int]] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        counts = view_of(made).counts["m"]
        seen.append((counts.total, counts.ok, counts.failed))
        if inputs["n"] == 1:
            raise WorkerError("broken_part", "no")
        return {"text": "x" * 500}

    graph = readable(
        MapNode(name="m", worker="w", over=list(range(5)), inputs={"n": ref("item")}, at_most=5, at_once=1, tolerate=1),
    )
    async with stage(graph, worker("w", body), folder=tmp_path, policy=Policy(inline_artifact_bytes=400)) as made:
        await made.run()
    assert seen == [(5, 0, 0), (5, 1, 0), (5, 1, 1), (5, 2, 1), (5, 3, 1)]


async def test_items_that_did_not_run_because_too_many_failed_did_not_succeed(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError("broken_part", "no")

    node = MapNode(name="m", worker="w", over=list(range(10)), inputs={"n": ref("item")}, at_most=10, at_once=1, on_failure=SKIP)
    async with stage(readable(node), worker("w", body), folder=tmp_path) as made:
        await made.run()
        assert view_of(made).counts == {"m": Counts(10, 0, 1)}


async def test_each_end_each_round_and_each_question_is_told_once_and_the_table_has_the_last_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"text": "short" if "revision" in inputs else "much too long"}

    takes = {"type": "object", "properties": {"revision": {"type": "object"}}}
    short = Rule(path=".text", op="length_at_most", value=5, code="long", message="Too long.")
    graph = readable(
        WorkerNode(name="a", worker="w", inputs={}),
        GateNode(name="g", candidate=out("a"), rules=(short,), revise="a", rounds=2),
        HumanNode(name="h", show=out("a"), after=(After(node="g"),)),
    )
    lines = NodeLines()
    async with stage(graph, worker("w", body, takes=takes), folder=tmp_path, clock=PatientClock()) as made:
        await made.run(idempotency_key="k")
        waits = view_of(made)
        (question,) = waits.nodes[2].waits_for
        for _ in range(2):
            lines.tell(waits)
        await made.answer("approve")
        await made.run(idempotency_key="k")
        lines.tell(view_of(made))
    assert capsys.readouterr().err.splitlines() == [
        "a: ● ok",
        "g: ■ blocked · wants a again: long at .text: Too long.",
        "a (round 2): ● ok",
        "g (round 2): ● ok",
        f"h: ◇ person · waits for {question}",
        "h: ● ok · approved by ann",
    ]
    drawn = io.StringIO()
    asked_at = waits.nodes[2].began_at
    assert asked_at is not None
    Console(file=drawn, width=120).print(table_of(graph, waits, now=asked_at + 2000))
    _, *rows = [[part.strip() for part in line.split("  ") if part.strip()] for line in drawn.getvalue().splitlines()]
    assert rows == [
        ["a (round 2)", "● ok", "0 ms", "g wanted it again: long at .text: Too long."],
        ["g (round 2)", "● ok", "0 ms"],
        ["h", "◇ person", "2 s", f"waits for {question}"],
    ]
