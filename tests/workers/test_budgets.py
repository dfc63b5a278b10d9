"""Budgets: what is settled is what the server counted, and no call begins beyond a cap, with many runs at once and across `kill -9`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.model.clock import SystemClock, VirtualClock
from holdfast.service.client import Client
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter
from holdfast.workers.calls import Try
from holdfast.workers.day_usage import spent_today
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.run_lookup import Caller, calls_of, find_run
from holdfast.workers.tools.language_model import ModelSettings
from holdfast.workers.tools.prices import Price
from holdfast.workers.tools.seam import Effect, Reservation, Usage
from holdfast.workers.tools.token_estimate import estimated_input
from tests.crash.scene import until
from tests.workers.harness import Counted, InlineWorker, contract, request, worker_service
from tests.workers.meter import Meter, a_meter
from tests.workers.pages import page, write
from tests.workers.processes import Runner

THINKING = Path(__file__).parent / "bodies" / "thinking.py"
PRICE = Price(input=Decimal("0.15"), output=Decimal("0.60"))
PER_INPUT, PER_OUTPUT = PRICE.input / 1_000_000, PRICE.output / 1_000_000
MOST = 20
"""The output that each call asks for at most."""


def reserved(prompt: str) -> int:
    """The tokens a call of this prompt reserves."""
    return estimated_input([{"role": "user", "content": prompt}]) + MOST


def spent(store: str, policy: Policy, tenant: str = "default") -> dict[str, Decimal]:
    """What the store says that the tenant has used of its day."""
    opened = open_store(store, "looker")
    try:
        return {each.what: each.spent for each in spent_today(opened, policy, [tenant], SystemClock().now())}
    finally:
        opened.close()


def thinkers(folder: Path, **limits: Any) -> Path:
    return write(folder / "worker", THINKING, thinking=page("thinking", "language_model", attempts=1, **limits))


def worker_settings(meter: Meter, policy: Policy) -> WorkerSettings:
    return WorkerSettings(policy=policy, model=ModelSettings(base_url=meter.url, api_key="none", model="m", prices={"m": PRICE}))


async def fifty(folder: Path, meter: Meter, policy: Policy, times: int = 3, **limits: Any) -> list[Response]:
    """Fifty runs at once, each of which asks so many times."""
    async with holdfast.open(
        str(folder / "s.db"), workers=[thinkers(folder, **limits)], worker_settings=worker_settings(meter, policy)
    ) as engine:
        wishes = [{"name": f"run-{number}", "times": times, "most": MOST} for number in range(50)]
        return await asyncio.gather(*(engine.run("thinking", wish) for wish in wishes))


def tokens(response: Response) -> int:
    used = response.observability.usage.tokens
    return used.input + used.output


def codes(responses: list[Response]) -> Counter[str]:
    return Counter("ok" if response.error is None else response.error.error_code for response in responses)


# --- many at once


@pytest.mark.parametrize(
    "caps, what, counted",
    [
        (DayCaps(tokens=2500), "tokens", lambda meter: meter.tokens),
        (DayCaps(cost_usd=Decimal("0.001")), "cost_usd", lambda meter: meter.cost(PER_INPUT, PER_OUTPUT)),
    ],
    ids=["tokens", "cost"],
)
async def test_fifty_runs_share_a_tenants_day_and_never_pass_it(
    tmp_path: Path, caps: DayCaps, what: str, counted: Callable[[Meter], Any]
) -> None:
    policy = Policy(isolation="inline", caps=caps)
    async with a_meter() as meter:
        responses = await fifty(tmp_path, meter, policy)
    cap = Decimal(caps.tokens or caps.cost_usd or 0)
    assert set(codes(responses)) == {"ok", "rate_limited"}, codes(responses)
    assert counted(meter) <= cap
    assert counted(meter) > cap / 2, "it was used, not only kept"
    assert spent(str(tmp_path / "s.db"), policy)[what] == counted(meter)
    assert sum(map(tokens, responses)) == meter.tokens
    assert sum(response.observability.usage.cost_usd for response in responses) == meter.cost(PER_INPUT, PER_OUTPUT)


async def test_each_run_keeps_within_its_own_cap_and_settles_on_the_servers_count(tmp_path: Path) -> None:
    most = reserved("run-49/1") + 25
    async with a_meter() as meter:
        responses = await fifty(tmp_path, meter, Policy(isolation="inline"), max_tokens=most)
    assert codes(responses) == {"budget_exceeded": 50}
    for number, response in enumerate(responses):
        charged = sum(read + written for prompt, read, written in meter.charged if prompt.startswith(f"run-{number}/"))
        assert (tokens(response), response.observability.usage.tool_calls) == (charged, 2)
        assert charged <= most


async def test_a_tenants_cap_on_cost_lets_no_model_without_a_price_through(tmp_path: Path) -> None:
    policy = Policy(isolation="inline", caps=DayCaps(cost_usd=Decimal(1)))
    async with a_meter() as meter:
        settings = WorkerSettings(policy=policy, model=ModelSettings(base_url=meter.url, api_key="none", model="m"))
        async with holdfast.open(":memory:", workers=[thinkers(tmp_path)], worker_settings=settings) as engine:
            response = await engine.run("thinking", {"name": "a", "times": 1, "most": MOST})
    assert (codes([response]), meter.begun) == ({"price_unknown": 1}, [])


async def test_what_was_reserved_before_midnight_is_not_given_back_to_the_next_day(tmp_path: Path) -> None:
    """Reserved on one day and settled on the next: the next day's cap does not grow by what came back."""
    came, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Counted):
        async def call(self, *args: Any) -> Any:
            called = await super().call(*args)
            if len(self.calls) == 1:
                came.set()
                await go_on.wait()
            return called

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.model()
        return {}

    model = Slow("model", Effect.READ, lambda: "hm", reservation=Reservation(100), usage=Usage(10, 10))
    clock = VirtualClock(skipping=False)
    worker = InlineWorker(contract("model"), body, model)
    async with worker_service(worker, folder=tmp_path, clock=clock, policy=Policy(caps=DayCaps(tokens=110))) as service:
        late = (await service.accept(request(), Caller()))[0]
        await came.wait()
        clock.move_to(clock.now() + 86_400_000)
        first = await service.invoke(request(), Caller())
        go_on.set()
        await service.response(late.id, Caller())
        second = await service.invoke(request(), Caller())
    assert (first.status, second.status) == (ResponseStatus.OK, ResponseStatus.RETRYABLE_ERROR), (
        "20 of 110 are used, and 100 more do not fit"
    )


# --- across a crash


class Crash:
    """Twenty runs that share a day, and a runner that is killed in the middle of twelve calls."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self.store = str(folder / "s.db")
        self.each = reserved("run-00/0")
        self.cap = 36 * self.each
        self.policy = Policy(isolation="inline", caps=DayCaps(tokens=self.cap))
        self._meter = meter
        self._folder = folder
        self._file = thinkers(folder)
        self._runners: list[Runner] = []
        (folder / "holdfast.toml").write_text(
            f"[policy]\nisolation = 'inline'\ncaps = {{ tokens = {self.cap} }}\n"
            f"[model]\nbase_url = '{meter.url}'\nmodel = 'm'\napi_key = 'none'\n"
        )

    def begin(self) -> list[int]:
        """A runner, and the same twenty requests for it."""
        self._runners.append(Runner(self.store, self._file, folder=self._folder, environment={}))
        names = [f"run-{number:02}" for number in range(20)]
        return [self._runners[-1].ask("thinking", {"name": name, "times": 3, "most": MOST}, key=name) for name in names]

    def kill(self) -> list[Try]:
        """Kill it when twelve calls are in flight; the calls it had begun."""
        until(lambda: sum(map(self._meter.holds, list(self._meter.begun))) == 12, "twelve calls to be in flight")
        self._runners[-1].kill()
        with Client.open(self.store) as client:
            return [
                each
                for header in client.list(Filter(limit=100))
                for each in calls_of(client._store, *find_run(client._store, header.id, Caller()))
            ]

    def end(self, numbers: list[int]) -> list[dict[str, Any]]:
        responses = [self._runners[-1].answer(number) for number in numbers]
        self._runners[-1].close()
        return responses


@pytest.mark.long
async def test_a_killed_runners_calls_count_as_spent_and_no_call_begins_beyond_the_cap(tmp_path: Path) -> None:
    async with a_meter() as meter:
        meter.holds = lambda prompt: prompt.endswith("/1") and prompt < "run-12"
        crash = await asyncio.to_thread(Crash, tmp_path, meter)
        await asyncio.to_thread(crash.begin)
        calls = await asyncio.to_thread(crash.kill)
        recorded = [call for call in calls if call.receipt is not None]
        lost = len(calls) - len(recorded)
        settled = sum(call.receipt.usage.input_tokens + call.receipt.usage.output_tokens for call in recorded if call.receipt)
        assert lost >= 12
        assert spent(crash.store, crash.policy)["tokens"] == settled + lost * crash.each, "what was reserved is not forgotten"

        meter.holds, begun = lambda prompt: False, len(meter.begun)
        responses = await asyncio.to_thread(lambda: crash.end(crash.begin()))
    used = spent(crash.store, crash.policy)["tokens"]
    assert meter.tokens <= used <= meter.tokens + lost * crash.each
    assert used <= crash.cap
    assert used == sum(sum(response["observability"]["usage"]["tokens"].values()) for response in responses)
    assert {"ok", "retryable_error"} == {response["status"] for response in responses}, "some went on, and some were refused"
    assert len(meter.begun) > begun
    again = Counter(meter.begun)
    assert all(again[call.intent.arguments["prompt"]] == 1 for call in recorded), "what was answered is not asked again"
