"""Maps of a thousand and of ten thousand items: the books are exact, and no execution grows with the list."""

from __future__ import annotations

import gc
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.terms import Retries, RunLimits, ToolGrant
from holdfast.model.execution import ExecutionStatus
from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.scene.shards import SHARD_ITEMS
from holdfast.store.seam import Filter, Store
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.run_lookup import accepted_in
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, Usage
from tests.pipelines.stage import LOCAL, graph_of, stage, worker
from tests.pipelines.templates import ref

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ITEMS = 1000
RETRIES = Retries(max_attempts=3, initial_delay_seconds=60, max_delay_seconds=60)


class Books:
    """A model's server: what each call used, and what it has billed. No two items cost the same."""

    name = "model"
    effect = Effect.READ
    arguments_schema = None

    def __init__(self) -> None:
        self.billed: list[tuple[int, Usage]] = []

    def reserve(self, arguments: Any, remaining: Remaining) -> Reservation:
        return Reservation(tokens=2000, cost_usd=Decimal("0.01"))

    async def call(self, call: Call, arguments: Any, reservation: Reservation) -> CallResult:
        n = arguments["n"]
        usage = Usage(input_tokens=n + 1, output_tokens=n % 7, cost_usd=Decimal(n + 1) / 1_000_000)
        self.billed.append((n, usage))
        return CallResult({"n": n}, usage)


async def test_a_thousand_items_with_failing_workers_are_accounted_for_exactly(tmp_path: Path) -> None:
    """Of twenty items one fails for good, and another one once: items, retries, tokens and money are those of the model's books."""
    books, attempts = Books(), Counter[int]()

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        n = inputs["n"]
        attempts[n] += 1
        await ctx.tools.model(n=n)
        if n % 20 == 0:
            raise WorkerError("bad_item")
        if n % 20 == 7 and attempts[n] == 1:
            raise WorkerError("tool_unavailable")
        return {"n": n}

    graph = graph_of(
        MapNode(name="m", worker="w", over=ref("inputs", "ns"), inputs={"n": ref("item")}, at_most=ITEMS, at_once=50, tolerate=50),
        gives={"counts": ref("m", "counts"), "failed": ref("m", "failed", "*", "index")},
        max_tokens=10_000_000,
        max_cost_usd=Decimal(100),
    )
    flaky = worker("w", body, books, limits=RunLimits(tools=(ToolGrant("model"),)), retries=RETRIES)
    async with stage(graph, flaky, folder=tmp_path) as made:
        response = await made.run({"ns": list(range(ITEMS))}, wait=200)
        store = made.engine._engine.store
        used = Counter[str]()
        runs = _runs(store, response.run_id)
        for run in runs:
            seen = (await made.service.response(run, LOCAL)).observability
            used += Counter(input=seen.usage.tokens.input, output=seen.usage.tokens.output, calls=seen.usage.tool_calls)
            used["attempts"] += seen.attempt
    assert response.outputs == {"counts": {"total": 1000, "ok": 950, "failed": 50}, "failed": list(range(0, ITEMS, 20))}
    assert attempts == Counter({n: 1 + (n % 20 == 7) for n in range(ITEMS)}), "each item once, and what may be tried again, again"
    billed = [usage for _, usage in books.billed]
    tokens = sum(one.input_tokens for one in billed), sum(one.output_tokens for one in billed)
    money = sum((one.cost_usd for one in billed), Decimal(0))
    whole = response.observability.usage
    assert (whole.tool_calls, (whole.tokens.input, whole.tokens.output), whole.cost_usd) == (ITEMS + 50, tokens, money)
    assert (len(runs), dict(used)) == (
        ITEMS,
        {"input": tokens[0], "output": tokens[1], "calls": ITEMS + 50, "attempts": ITEMS + 50},
    ), "the runs of the items have the same sums"


async def test_ten_thousand_items_leave_no_execution_that_grows_with_the_list(tmp_path: Path) -> None:
    """The parent has one operation for each shard, a shard has one for each of its items; memory stays where a tenth of the list had it."""
    count, memory = 10_000, {}

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        if inputs["at"] in (count // 10, count - 1):
            gc.collect()
            memory[inputs["at"]] = _resident_mb()
        return {"n": inputs["n"]}

    graph = graph_of(
        MapNode(
            name="m",
            worker="w",
            over=ref("inputs", "ns"),
            inputs={"n": ref("item"), "at": ref("index")},
            at_most=count,
            at_once=50,
        ),
        gives={"counts": ref("m", "counts")},
    )
    async with stage(graph, worker("w", body), folder=tmp_path, where=str(tmp_path / "s.db")) as made:
        response = await made.run({"ns": list(range(count))}, wait=280)
        store = made.engine._engine.store
        shards = list(store.list(Filter(parent=response.run_id, limit=1000)))
        parent = store.find(response.run_id)
        assert parent is not None
        operations = [len(store.operations(shard.id)) for shard in shards]
        own = store.operations(parent.id)
    assert response.outputs == {"counts": {"total": count, "ok": count, "failed": 0}}
    assert len(shards) == count // SHARD_ITEMS
    assert {shard.status for shard in shards} == {ExecutionStatus.SUCCEEDED}
    assert (len(own), parent.events) <= (len(shards) + 5, 3 * len(shards) + 20)
    assert max(operations) <= SHARD_ITEMS + 2
    assert max(shard.events for shard in shards) <= 3 * SHARD_ITEMS + 20
    assert max(len(operation.result or "") for operation in own) < 300_000, "a page above a size is an artifact"
    assert memory[count - 1] - memory[count // 10] < 60, memory


def _runs(store: Store, run_id: str) -> list[str]:
    """The runs of the items, below the shards."""
    found: list[str] = []
    for child in _children(store, run_id):
        accepted = accepted_in(store, child)
        assert accepted is not None
        found += _runs(store, child.id) if accepted.is_shard else [child.id]
    return found


def _children(store: Store, run_id: str) -> list[Any]:
    found: list[Any] = []
    beyond = None
    while page := store.list(Filter(parent=run_id, beyond=beyond, limit=500)):
        found += page
        beyond = page[-1].id
    return found


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000
