"""Following a run: ids of recorded events never change, ids of live ones have another form; a client that reconnects misses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import response_document
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionNotFound
from holdfast.workers.approvals import Decision
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.events import RunEvent
from holdfast.workers.run_lookup import Caller
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Effect, ToolFailed
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service


async def followed(service: WorkerService, run_id: str, after: int | str = 0) -> list[RunEvent]:
    return [event async for event in service.follow(run_id, LOCAL, after=after) if event is not None]


def brief(events: list[RunEvent]) -> list[tuple[Any, ...]]:
    return [(event.event, *(event.data[name] for name in ("attempt", "tool", "state") if name in event.data)) for event in events]


async def test_the_history_of_a_run_is_its_events_and_they_can_be_had_from_any_id_on(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.pay()
        return {"seen": await ctx.tools.look()}

    looks = iter([ToolFailed("tool_unavailable", "away"), "x"])
    pay, look = Counted("pay", Effect.WRITE), Counted("look", Effect.READ, lambda: next(looks))
    clock = VirtualClock()
    async with worker_service(InlineWorker(contract("pay", "look"), body, pay, look), folder=tmp_path, clock=clock) as service:
        response = await service.invoke(request(), LOCAL)
        clock.skipping = False  # else time goes on to when the run is forgotten
        events = await followed(service, response.run_id)
        later = [await followed(service, response.run_id, after=event.id or 0) for event in events]
        gaps = [[event.event for event in rest].count("gap") for rest in later]
        later = [[event for event in rest if event.event != "gap"] for rest in later]
    assert brief(events) == [
        ("accepted",),
        ("attempt", 1, "began"),
        ("tool", 1, "pay", "began"),
        ("tool", "pay", "ended"),
        ("tool", 1, "look", "began"),
        ("tool", "look", "ended"),
        ("attempt", 1, "ended"),
        ("attempt", 2, "began"),
        ("tool", 2, "look", "began"),
        ("tool", "look", "ended"),
        ("attempt", 2, "ended"),
        ("done",),
    ]
    ids = [event.id for event in events]
    assert all(id is not None for id in ids)
    assert ids == sorted(set(ids), key=lambda id: id or 0)
    assert later == [events[at + 1 :] for at in range(len(events))]
    assert gaps == [1] * (len(events) - 1) + [0]  # this process had no follower while the run worked: live events may be missing
    assert events[5].data["error_code"] == events[6].data["error_code"] == "tool_unavailable"
    assert events[-1].data == response_document(response)


async def test_progress_and_log_lines_come_while_the_body_works(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.pay()
        ctx.progress({"done": 1, "of": 2})
        ctx.log("half way", level="info")
        await go_on.wait()
        return {}

    worker = InlineWorker(contract("pay"), body, Counted("pay", Effect.WRITE))
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        header = (await service.accept(request(), LOCAL))[0]
        live: list[RunEvent] = []
        async with asyncio.timeout(10):
            async for event in service.follow(header.id, LOCAL):
                if event is None:
                    continue
                live.append(event)
                if event.event == "log":
                    go_on.set()
        again = await followed(service, header.id)
    told = {event.event: event.data for event in live if isinstance(event.id, str)}
    assert told["progress"] == {"done": 1, "of": 2}
    assert told["log"]["message"] == "half way"
    assert [event.event for event in live][-1] == "done"
    assert live == again  # the runner keeps live events for a while


async def test_a_secret_of_the_inputs_is_not_shown_to_those_who_follow_the_progress(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ctx.progress({"with": inputs["token"], "done": 1})
        await go_on.wait()
        return {}

    schema = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    worker = InlineWorker(contract(input_schema=schema), body)
    async with worker_service(worker, folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        header = (await service.accept(request(token="tok-5f3a9c"), LOCAL))[0]
        async with asyncio.timeout(10):
            async for event in service.follow(header.id, LOCAL):
                if event is not None and event.event == "progress":
                    assert event.data == {"with": "[redacted:token]", "done": 1}
                    go_on.set()
    assert go_on.is_set()


@pytest.mark.parametrize("resting", [1000, 0])
async def test_an_approval_is_an_event_when_it_is_asked_for_and_when_it_is_decided(tmp_path: Path, resting: int) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"paid": await ctx.tools.pay()}

    worker = InlineWorker(contract("pay"), body, Counted("pay", Effect.WRITE), approvals=frozenset({"pay"}))
    async with worker_service(worker, folder=tmp_path, resting=resting, clock=VirtualClock(skipping=False)) as service:
        header = (await service.accept(request(), LOCAL))[0]
        states = []
        async with asyncio.timeout(10):
            async for event in service.follow(header.id, LOCAL):
                if event is not None and event.event == "approval":
                    states.append((event.data["tool"], event.data["state"]))
                    if event.data["state"] == "open":
                        decided = Decision(verdict="approve", decided_by="bob", decided_at=1)
                        await service.decide(event.data["approval_id"], decided, LOCAL)
    assert states == [("pay", "open"), ("pay", "approve")]


async def test_strangers_follow_nothing_and_followers_leave_nothing_behind(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        raise WorkerError("no")

    async with worker_service(InlineWorker(contract(), body), folder=tmp_path, clock=VirtualClock(skipping=False)) as service:
        response = await service.invoke(request(), Caller(tenant="ann", logged_in=True))
        with pytest.raises(ExecutionNotFound):
            service.follow(response.run_id, Caller(tenant="bob", logged_in=True))
        assert brief(await followed(service, response.run_id))[-1] == ("done",)
    assert (service.followed_runs._followers, service.followed_runs._tenants.total()) == ({}, 0)
