"""Fifty pipelines at once against a model server that counts, while their runner is killed again and again.

Calls that the server has answered are settled to the token and to the billionth of a dollar, at every level. Calls that a kill has cut off
are unknown, apart from them, and together nothing that the server has counted is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.ledger import EntryState, nanos_of
from holdfast.service.client import Client
from holdfast.store.backends import open_maintenance
from holdfast.store.seam import Filter
from holdfast.workers.run_lookup import Caller, find_run, response_of
from tests.crash.scene import until
from tests.postgres import new_schema
from tests.workers.meter import Meter, a_meter
from tests.workers.pages import page, write
from tests.workers.processes import Runner

THINKING = Path(__file__).parents[1] / "workers" / "bodies" / "thinking.py"
PER_INPUT, PER_OUTPUT = Decimal("0.00000015"), Decimal("0.0000006")
PIPELINES = 50
KILLS = 3
IN_FLIGHT = 8
"""Calls that a kill cuts off, at least."""
SOURCE = """
from holdfast import Pipeline

q = Pipeline("afterthought", "1.0", inputs={"type": "object"}, outputs={"type": "object"}, max_tokens=10_000)
q.gives(q.worker("one", "thinking", {"name": q.inputs.name, "times": 1, "most": 20}))

p = Pipeline("thoughts", "1.0", inputs={"type": "object"}, outputs={"type": "object"}, max_tokens=100_000, max_cost_usd=10)
first = p.worker("first", "thinking", {"name": p.text("{}-a", p.inputs.name), "times": 1, "most": 20})
more = p.map("more", "thinking", p.inputs.names, {"name": p.item, "times": 1, "most": 20}, at_most=4, after=first)
inner = p.pipeline("inner", "afterthought", {"name": p.text("{}-c", p.inputs.name)}, after=more)
p.gives({"n": more.counts.ok, "inner": inner.outputs})
"""
CALLS = 4
"""Of each pipeline: one of its first node, two of the items of its map, one of the pipeline inside it."""


class Chaos:
    """Runners on one store. Each is killed in the middle of calls, but the last."""

    def __init__(self, folder: Path, meter: Meter, store: str) -> None:
        self.store = store
        self._folder, self._meter = folder, meter
        self._file = write(folder / "thoughts", THINKING.read_text() + SOURCE, thinking=page("thinking", "language_model", attempts=1))
        (folder / "holdfast.toml").write_text(
            f"[policy]\nisolation = 'inline'\n[model]\nbase_url = '{meter.url}'\nmodel = 'm'\napi_key = 'none'\n"
            "[model.prices.m]\ninput = 0.15\noutput = 0.60\nas_of = 2026-11-01\nsource = 'the test'\n"
        )

    def begin(self) -> tuple[Runner, list[int]]:
        runner = Runner(self.store, self._file, folder=self._folder, environment={})
        wishes: list[dict[str, Any]] = [
            {"name": f"p{at:02}", "names": [f"p{at:02}-b{item}" for item in range(2)]} for at in range(PIPELINES)
        ]
        return runner, [runner.ask("thoughts", wish, key=wish["name"]) for wish in wishes]

    def kill(self) -> None:
        """Kill a runner while calls are under way that get no answer."""
        before = len(self._meter.begun)
        runner, _ = self.begin()
        until(lambda: sum(map(self._meter.holds, self._meter.begun[before:])) >= IN_FLIGHT, "calls to be under way")
        runner.kill()

    def end(self) -> list[dict[str, Any]]:
        runner, numbers = self.begin()
        responses = [runner.answer(number) for number in numbers]
        runner.close()
        return responses


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_fifty_killed_pipelines_settle_to_the_token_and_the_cent_at_every_level(kind: str, tmp_path: Path) -> None:
    store = str(tmp_path / "s.db") if kind == "sqlite" else new_schema()
    async with a_meter() as meter:
        chaos = await asyncio.to_thread(Chaos, tmp_path, meter, store)
        for number in range(KILLS):
            meter.holds = _held(number)
            await asyncio.to_thread(chaos.kill)
        meter.holds = lambda prompt: False
        responses = await asyncio.to_thread(chaos.end)
    assert {response["status"] for response in responses} == {"ok"}
    with Client.open(store) as client:
        whole = client.cost().total
        ledger = client._store
        runs = [header.id for header in client.list(Filter(function="thinking", limit=1000))]
        assert len(runs) == CALLS * PIPELINES
        entries = [one for run in runs for one in ledger.ledger(run)]
        settled = [one for one in entries if one.state is EntryState.SETTLED]
        unknown = [one for one in entries if one.state is EntryState.UNKNOWN]
        _check_server(meter, settled, unknown)
        _check_levels(client, responses, whole)
        _check_runs(client, runs, meter)
    assert (whole.open.calls, whole.open.nanos) == (0, 0)
    assert list(open_maintenance(store, "checker").check(quick=False).findings) == []


def _held(number: int) -> Callable[[str], bool]:
    """Which calls get no answer before this kill: those of most pipelines, and of some pipelines only the last one."""
    return lambda prompt: int(prompt[1]) >= number or (int(prompt[1]) == number - 1 and prompt.endswith("-b1/0"))


def _check_server(meter: Meter, settled: list[Any], unknown: list[Any]) -> None:
    """Settled calls are what the server charged for calls whose answer came; with the unknown ones nothing is missing."""
    assert len(settled) == CALLS * PIPELINES, "every call has one answer that counts"
    assert len(unknown) >= KILLS * IN_FLIGHT
    assert {(one.price_source, one.price_date) for one in settled} == {("the test", "2026-11-01")}
    assert sum(one.nanos for one in settled) == sum(
        nanos_of(one.input_tokens * PER_INPUT + one.output_tokens * PER_OUTPUT) for one in settled
    )
    all_tokens = sum(one.input_tokens + one.output_tokens for one in (*settled, *unknown))
    all_nanos = sum(one.nanos for one in (*settled, *unknown))
    assert all_tokens >= meter.tokens
    assert all_nanos >= nanos_of(meter.cost(PER_INPUT, PER_OUTPUT))
    last = {prompt: (read, written) for prompt, read, written in meter.charged}
    assert sorted(last.values()) == sorted((one.input_tokens, one.output_tokens) for one in settled)


def _check_levels(client: Client, responses: list[dict[str, Any]], whole: Any) -> None:
    """Runs, pipelines, days, counters and all together."""
    assert client.cost(since="2d").total == whole
    for by, groups in {"tenant": 1, "model": 1, "worker": 1, "pipeline,node": 3, "node,model,tenant": 3}.items():
        lines = client.cost(by=by, since="2d").lines
        assert (len(lines), sum(line.nanos for line in lines), sum(line.settled.calls for line in lines)) == (
            groups,
            whole.nanos,
            CALLS * PIPELINES,
        )
    spent = 0
    for response in responses:
        run, usage = response["run_id"], response["observability"]["usage"]
        total = client.cost(run=run).total
        assert total.input_tokens + total.output_tokens == usage["tokens"]["input"] + usage["tokens"]["output"]
        assert total.nanos == nanos_of(Decimal(str(usage["cost_usd"])))
        counters = {one.key.rpartition("/")[2]: one for one in client._store.counters([f"budget/{run}/tokens", f"budget/{run}/cost"])}
        assert (counters["cost"].amount, counters["cost"].reserved) == (total.nanos, 0)
        assert (counters["tokens"].amount, counters["tokens"].reserved) == (total.input_tokens + total.output_tokens, 0)
        spent += total.nanos
    assert spent == whole.nanos


def _check_runs(client: Client, runs: list[str], meter: Meter) -> None:
    """Each run of a worker, and each pipeline inside a pipeline: its settled call is the server's, and its response says what it cost."""
    last = {prompt: (read, written) for prompt, read, written in meter.charged}
    inner = [header.id for header in client.list(Filter(function="afterthought", limit=1000))]
    for run in (*runs, *inner):
        header, accepted = find_run(client._store, run, Caller())
        usage = response_of(client._store, header, accepted).observability.usage
        total = client.cost(run=run).total
        assert (total.input_tokens, total.output_tokens) == (usage.tokens.input, usage.tokens.output)
        assert (total.nanos, total.settled.calls) == (nanos_of(usage.cost_usd), 1)
        if run in runs:
            (entry,) = [one for one in client._store.ledger(run) if one.state is EntryState.SETTLED]
            assert (entry.input_tokens, entry.output_tokens) == last[f"{accepted.request.inputs['name']}/0"]
