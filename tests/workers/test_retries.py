"""What is tried again, and when: a body's end is certain before the next one begins, and a runner's death does not count as an attempt."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.terms import Retries, RunLimits
from holdfast.hosts.sandbox.jail import BodyEnd, EndCode
from holdfast.model.clock import VirtualClock, monotonic
from holdfast.model.execution import State
from holdfast.model.life import next_try
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from holdfast.workers.approvals import Decision
from holdfast.workers.attempt import Body
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.inline import InlineBody
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Call, CallResult, DidNotHappen, Effect, Happened, Reservation
from tests.crash.scene import until
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write
from tests.workers.processes import Runner, alive
from tests.workers.shop import Shop, a_shop

ONCE = Retries(max_attempts=1)
STUBBORN = Path(__file__).parent / "bodies" / "stubborn.py"


class Scene:
    """Runners over one store, one after the other."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self.shop = shop
        self.store = str(folder / "s.db")
        self._folder = folder
        self._file = write(
            folder / "workers",
            STUBBORN,
            stubborn=page("stubborn", "look", timeout_seconds=4, allow_subprocess=True),
            waiting=page("waiting", "look", timeout_seconds=300),
        )
        self.runners: list[Runner] = []

    def runner(self) -> Runner:
        made = Runner(self.store, self._file, folder=self._folder, environment={"SHOP": self.shop.url})
        self.runners.append(made)
        return made


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with a_shop() as shop:
        made = Scene(tmp_path, shop)
        yield made
        for runner in made.runners:
            runner.close()


def with_mark(mark: str) -> list[int]:
    """The processes that have this word in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line.split(b"\0") and alive(int(name)):
                found.append(int(name))
    return found


def test_a_timed_out_attempt_is_dead_with_all_it_started_before_the_next_begins(scene: Scene) -> None:
    mark = secrets.token_hex(8)
    scene.shop.hold("o", "attempt-2")
    runner = scene.runner()
    number = runner.ask("stubborn", {"order": "o", "mark": mark}, key="k")
    scene.shop.wait_for("o", "attempt-1")
    (first,) = until(lambda: with_mark(mark), "the grandchild")
    scene.shop.wait_for("o", "attempt-2")

    assert not alive(first)
    (second,) = until(lambda: with_mark(mark), "the grandchild of the second attempt")
    assert second != first
    with Client.open(scene.store) as client:
        run = next(iter(client.list(Filter(limit=1)))).id
        history = [(event.type, event.name) for event in client.history(run)]
    scene.shop.let_go("o")
    response = runner.answer(number)
    assert (response["status"], response["outputs"]) == ("ok", {"attempt": 2})
    until(lambda: not alive(second), "nothing to be left")
    told = [(what, name) for what, name in history if name in ("attempt-1", "retry-1", "attempt-2")]
    assert told == [
        ("ContextStarted", "attempt-1"),
        ("ContextFailed", "attempt-1"),
        ("WaitStarted", "retry-1"),
        ("WaitSucceeded", "retry-1"),
        ("ContextStarted", "attempt-2"),
    ]


def test_the_runners_death_is_no_attempt_and_after_the_third_in_a_row_the_run_waits_for_its_next_try(scene: Scene) -> None:
    runner = scene.runner()
    runner.ask("waiting", {"order": "o"}, key="k")
    scene.shop.wait_for("o", "attempt-1")
    with Client.open(scene.store) as client:
        run = next(iter(client.list(Filter(limit=1)))).id
        until(lambda: "Receipt" in [op.sub_type for op in client.operations(run) if op.ended_at], "the answer of its tool")
        for deaths in (1, 2, 3):
            runner.kill()
            runner = scene.runners[0] = scene.runner()
            scene.runners.pop()
            if deaths < 3:
                until(lambda died=deaths: (at := client.get(run)).deaths == died and at.state is State.RUNNING, "it to go on")  # type: ignore[misc]
                assert [op.name for op in client.operations(run) if op.sub_type == "Attempt"] == ["attempt-1"]
        until(lambda: next_try(client.get(run)), "it to be put aside for a while")
        assert client.runs.get(run).state == "waiting"


# --- a key that begins again: inline, because only the order of things counts


async def test_a_third_run_of_a_key_knows_what_the_first_did(tmp_path: Path) -> None:
    pay = Counted("pay", Effect.WRITE)
    runs: list[int] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        runs.append(1)
        if len(runs) == 2:
            raise WorkerError("flaky", retryable=True)
        await ctx.tools.pay()
        if len(runs) == 1:
            raise WorkerError("flaky", retryable=True)
        return {}

    worker = InlineWorker(contract("pay", retries=ONCE), body, pay)
    async with worker_service(worker, folder=tmp_path) as service:
        responses = [await service.invoke(request(idempotency_key="k"), LOCAL) for _ in range(3)]
    assert [response.status.value for response in responses] == ["retryable_error", "retryable_error", "ok"]
    assert len(pay.calls) == 1


class Silent(Counted):
    """The first call does not come back, and its outcome is not known in time."""

    def __init__(self, name: str, effect: Effect) -> None:
        super().__init__(name, effect)
        self.began = asyncio.Event()
        self.asked = 0

    async def call(self, call: Call, arguments: Any, reservation: Reservation) -> CallResult:
        called = await super().call(call, arguments, reservation)
        self.began.set()
        if len(self.calls) == 1:
            await asyncio.Event().wait()
        return called

    async def reconcile(self, call: Call, arguments: Any) -> Any:
        self.asked += 1
        if len(self.calls) == 1 and self.asked == 1:
            await asyncio.Event().wait()
        return DidNotHappen()


async def paying_and_asking(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    await ctx.tools.pay()
    await ctx.ask("go on?")
    return {}


class Mute(Silent):
    """Its reconcile function never answers."""

    async def reconcile(self, call: Call, arguments: Any) -> Any:
        await asyncio.Event().wait()


async def test_when_an_attempt_is_over_the_tool_is_asked_before_a_person_is(tmp_path: Path) -> None:
    pay = Silent("pay", Effect.WRITE)  # asked again about the lost call, it says that the call did not happen
    worker = InlineWorker(contract("pay", retries=ONCE, limits={"timeout_seconds": 0.1}), paying_and_asking, pay)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False), policy=Policy(grace_seconds=0.1)) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert (response.error.error_code, response.error.details, response.approvals) == ("timeout", None, ())


async def test_the_end_of_the_last_attempt_does_not_hide_a_call_whose_outcome_nobody_knows(tmp_path: Path) -> None:
    pay = Mute("pay", Effect.WRITE)
    worker = InlineWorker(contract("pay", retries=ONCE, limits={"timeout_seconds": 0.1}), paying_and_asking, pay)
    clock, policy = VirtualClock(skipping=False), Policy(grace_seconds=0.1, reconcile_seconds=0.1)
    async with worker_service(worker, folder=tmp_path, clock=clock, policy=policy) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert (response.status.value, response.error.error_code) == ("needs_human", "unknown_outcome")


class Timed(Silent):
    """It notes how many seconds it has to find out the outcome of a lost call."""

    seconds = 0.0

    async def reconcile(self, call: Call, arguments: Any) -> Any:
        self.seconds = call.deadline - monotonic()
        return Happened({"paid": True})


async def test_a_tool_has_time_of_its_own_to_find_out_about_a_lost_call_also_after_the_attempts_end(tmp_path: Path) -> None:
    pay = Timed("pay", Effect.WRITE)
    worker = InlineWorker(contract("pay", retries=ONCE, limits={"timeout_seconds": 0.1}), paying_and_asking, pay)
    policy = Policy(grace_seconds=0.1, reconcile_seconds=1000)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False), policy=policy) as service:
        response = await service.invoke(request(), LOCAL)
    assert response.error is not None
    assert (response.error.error_code, response.approvals) == ("timeout", ())
    assert pay.seconds > 500


async def test_a_run_that_replays_follows_its_own_last_try_not_its_forerunners(tmp_path: Path) -> None:
    pay = Silent("pay", Effect.WRITE)
    worker = InlineWorker(contract("pay", retries=ONCE), paying_and_asking, pay)
    clock, policy = VirtualClock(skipping=False), Policy(grace_seconds=0)
    asking = request(idempotency_key="k", run_timeout_seconds=60)
    async with worker_service(worker, folder=tmp_path, resting=0, clock=clock, policy=policy) as service:
        first = (await service.accept(asking, LOCAL))[0]
        await pay.began.wait()
        clock.move_to(clock.now() + 61_000)
        late = await service.response(first.id, LOCAL)
        pay.asked = 1
        asked = await service.invoke(asking, LOCAL)
        answer = Decision(verdict="answer", decided_by="bob", decided_at=1, result=True)
        await service.decide(asked.approvals[0]["approval_id"], answer, LOCAL)
        response = await service.response(asked.run_id, LOCAL)
    assert late.error is not None
    assert (late.error.error_code, asked.status.value, response.status.value) == ("timeout", "needs_human", "ok")
    assert (len(pay.calls), pay.asked) == (2, 2)


class Lingering(InlineBody):
    """A body that takes its time to die."""

    told: list[str]

    @property
    def over(self) -> bool:
        return False

    @over.setter
    def over(self, _: bool) -> None:
        """It is dead when it was killed."""

    async def kill(self, code: EndCode = "cancelled", detail: str = "") -> BodyEnd:
        ended = await super().kill(code, detail)
        for _ in range(100):
            await asyncio.sleep(0)
        self.told.append("dead")
        return ended


@pytest.mark.parametrize("failing", ["raises", "breaks its promise"])
async def test_no_attempt_begins_before_the_last_one_is_dead(tmp_path: Path, failing: str) -> None:
    told: list[str] = []

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        told.append("began")
        if failing == "raises":
            raise WorkerError("flaky", retryable=True)
        return {"answer": 7}

    class Worker(InlineWorker):
        async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
            made = Lingering(body, timeout)
            made.told = told
            return made

    promise = {"type": "object", "properties": {"answer": {"type": "string"}}}
    worker = Worker(contract(output_schema=promise, retries=Retries(max_attempts=2, backoff="none")), body)
    async with worker_service(worker, folder=tmp_path) as service:
        await service.invoke(request(), LOCAL)
    assert told[:3] == ["began", "dead", "began"]
