"""Live events of a run: text of models and progress reach followers as they happen, a follower that comes back misses and doubles nothing,
and no follower can slow a run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.refusals import Overloaded
from holdfast.contract.terms import ToolGrant
from holdfast.model.clock import SystemClock, VirtualClock
from holdfast.pipelines.graph.graph import After, MapNode, WorkerNode
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.event_rings import RingLimits
from holdfast.workers.events import RunEvent
from holdfast.workers.followed_runs import FollowedRuns, FollowerLimits
from holdfast.workers.policy import Policy
from holdfast.workers.service import WorkerService
from holdfast.workers.token_streams import MOST_BYTES, TokenStream
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.seam import Effect
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.tools.models import Model, a_model
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service
from tests.workers.pages import page, write

KEY = "sk-very-secret-key-0123456789"
TOKEN = "tok-5f3a9c-77-long-enough"
SOURCE = """
from holdfast import worker


@worker("counting.md")
async def count(inputs, ctx):
    ctx.progress(1)
    return {"n": 1}
"""
SECRET_INPUT = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}


@contextlib.asynccontextmanager
async def thinking(folder: Path, **more: Any) -> AsyncIterator[tuple[WorkerService, Model]]:
    """A worker that asks a model which streams what the test feeds it."""

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.tools.language_model(prompt="x")}

    async with a_model() as model:
        model.streams()
        tool = LanguageModel(ModelSettings(base_url=model.url, model="m", api_key=KEY))
        made = InlineWorker(contract("language_model", input_schema=SECRET_INPUT, limits={"timeout_seconds": 60}, **more), body, tool)
        async with worker_service(made, folder=folder, clock=SystemClock()) as service:
            yield service, model
        await tool.close()


def text_of(events: list[RunEvent]) -> str:
    """The text that these events tell, without a part missing or doubled."""
    told = ""
    for event in events:
        if event.event == "tokens":
            assert event.data["offset"] == len(told), events
            told += event.data["text"]
    return told


async def test_text_of_a_model_reaches_a_follower_while_the_model_still_writes(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (service, model), asyncio.timeout(30):
        header = (await service.accept(request(), LOCAL))[0]
        model.streams("Once upon ")
        seen: list[RunEvent] = []
        async for event in service.follow(header.id, LOCAL):
            if event is None:
                continue
            seen.append(event)
            if text_of(seen) == "Once upon " and event.event == "tokens":
                model.streams("a time.", None)
    kinds = [event.event for event in seen]
    assert text_of(seen) == "Once upon a time."
    assert kinds[-3:] == ["tool", "attempt", "done"]
    assert kinds.index("tokens") < len(kinds) - 1 - kinds[::-1].index("tool")
    told = next(event for event in seen if event.event == "tokens")
    assert {name: told.data[name] for name in ("tool", "attempt", "try")} == {"tool": "language_model", "attempt": 1, "try": 1}
    assert isinstance(told.id, str)
    assert seen[-1].data["outputs"] == {"said": "Once upon a time."}


async def test_a_follower_that_comes_back_after_any_event_misses_and_doubles_nothing(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (service, model), asyncio.timeout(30):
        header = (await service.accept(request(), LOCAL))[0]
        whole: list[RunEvent] = []
        number = 0
        async for event in service.follow(header.id, LOCAL):
            if event is not None:
                whole.append(event)
            if event is not None and (event.event == "tokens" or (event.event == "tool" and number == 0)) and number < 6:
                number += 1
                model.streams(f"part {number} ", *([None] if number == 6 else []))
        for at, event in enumerate(whole[:-1]):
            assert event.id is not None
            rest = [later async for later in service.follow(header.id, LOCAL, after=event.id) if later is not None]
            assert rest == whole[at + 1 :], event
    assert text_of(whole) == "".join(f"part {number} " for number in range(1, 7))
    positions = [(event.id, 0) if isinstance(event.id, int) else tuple(map(int, str(event.id).split(".")[::2])) for event in whole]
    assert positions == sorted(positions)


async def test_a_secret_that_is_cut_between_two_pieces_is_not_told(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (service, model), asyncio.timeout(30):
        header = (await service.accept(request(token=TOKEN), LOCAL))[0]
        seen: list[RunEvent] = []
        async for event in service.follow(header.id, LOCAL):
            if event is None:
                continue
            seen.append(event)
            if event.event == "tool" and event.data["state"] == "began":
                model.streams(f"Say {KEY[:9]}")
            if event.event == "tokens" and len(text_of(seen)) == 4:
                model.streams(f"{KEY[9:]} and {TOKEN[:7]}", f"{TOKEN[7:]} once.", None)
    assert text_of(seen) == "Say [redacted:model_key] and [redacted:token] once."


async def test_a_follower_that_comes_in_the_middle_of_a_text_gets_its_end_and_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[str] = []
    add = TokenStream.add

    def counted(self: TokenStream, text: str) -> None:
        arrived.append(text)
        add(self, text)

    monkeypatch.setattr(TokenStream, "add", counted)
    async with thinking(tmp_path) as (service, model), asyncio.timeout(30):
        header = (await service.accept(request(), LOCAL))[0]
        model.streams("word " * 8000)
        while len("".join(arrived)) < 40_000:
            await asyncio.sleep(0)
        seen: list[RunEvent] = []
        async for event in service.follow(header.id, LOCAL):
            if event is not None:
                seen.append(event)
            if event is not None and event.event == "tool" and event.data["state"] == "began":
                model.streams("the end.", None)
    tokens = [event.data for event in seen if event.event == "tokens"]
    assert tokens[0]["offset"] > 20_000
    assert "".join(part["text"] for part in tokens).endswith("word the end.")
    assert all(len(part["text"].encode()) <= MOST_BYTES for part in tokens)


async def test_without_a_follower_no_text_is_kept_and_none_enters_the_history(tmp_path: Path) -> None:
    async with thinking(tmp_path) as (service, model), asyncio.timeout(30):
        model.streams("piece of ", "text", None)
        response = await service.invoke(request(), LOCAL)
        assert len(service.followed_runs._rings) == 0
        lines = service._engine.store.history(response.run_id, 0, 1000)
    texts = [line.event.payload or "" for line in lines] + [str(line.operation.result) for line in lines if line.operation is not None]
    assert not any('"tokens"' in text and "piece of" in text and "offset" in text for text in texts)
    assert sum("piece of text" in text for text in {*texts}) >= 1  # in the receipt and the response, as ever


# --- pipelines


async def test_the_followers_of_a_pipeline_hear_its_nodes_and_items_with_their_names(tmp_path: Path) -> None:
    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        ctx.progress({"n": inputs["n"]})
        return {"said": await ctx.tools.language_model(prompt="x")}

    async with a_model() as model:
        tool = LanguageModel(ModelSettings(base_url=model.url, model="m"))
        thinks = worker("thinks", body, tool, grants=(ToolGrant("language_model"),))
        inner = graph_of(WorkerNode(name="deep", worker="thinks", inputs={"n": 7}), name="inner")
        graph = graph_of(
            MapNode(name="each", worker="thinks", over=ref("inputs", "ns"), inputs={"n": ref("item")}, at_most=5, at_once=1),
            WorkerNode(name="below", worker="inner", inputs={}, after=(After("each"),)),
        )
        async with stage([inner, graph], thinks, folder=tmp_path, clock=VirtualClock(skipping=False)) as made, asyncio.timeout(30):
            begun = await made.service.begin(WorkerRequest(worker_id="p", inputs={"ns": [1, 2]}), LOCAL)
            assert not isinstance(begun, Response)
            seen = [event async for event in made.service.follow(begun[0].id, LOCAL) if event is not None]
        await tool.close()
    told = [(event.event, event.data.get("node"), event.data.get("item")) for event in seen if event.event in ("progress", "tokens")]
    assert told == [
        ("progress", "each", 0),
        ("tokens", "each", 0),
        ("progress", "each", 1),
        ("tokens", "each", 1),
        ("progress", "below", None),
        ("tokens", "below", None),
    ]
    assert [event.data["progress"] for event in seen if event.event == "progress"] == [{"n": 1}, {"n": 2}, {"n": 7}]
    assert all("run_id" in event.data for event in seen if event.event == "tokens")


# --- bounds


@contextlib.asynccontextmanager
async def chatty(folder: Path, **limits: Any) -> AsyncIterator[WorkerService]:
    """A worker that reports its progress as often as it is asked to, with a durable call between."""

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        for number in range(inputs["times"]):
            ctx.progress({"n": number})
            if number % 50 == 0:
                await ctx.tools.pay(key=str(number))
        return {}

    made = InlineWorker(contract("pay", limits={"timeout_seconds": 60}), body, Counted("pay", Effect.WRITE))
    async with worker_service(made, folder=folder, clock=VirtualClock(skipping=False)) as service:
        service.followed_runs = FollowedRuns(**limits)
        service._reporters._followers = service.followed_runs
        yield service


async def test_a_follower_that_does_not_read_costs_a_run_no_write_and_gets_one_gap(tmp_path: Path) -> None:
    async with chatty(tmp_path, rings=RingLimits(events=20)) as service, asyncio.timeout(30):
        alone = service._engine.store.find((await service.invoke(request(times=1000), LOCAL)).run_id)
        header = (await service.accept(request(times=1000), LOCAL))[0]
        slow = service.follow(header.id, LOCAL)
        first = await anext(slow)
        await service.response(header.id, LOCAL)
        followed = service._engine.store.find(header.id)
        assert alone is not None
        assert followed is not None
        assert (followed.revision, followed.events) == (alone.revision, alone.events)  # as many writes, and the same history
        assert alone.revision > 40
        seen = [first, *[event async for event in slow]]
        recorded = [event async for event in service.follow(header.id, LOCAL) if event is not None and isinstance(event.id, int)]
        ring = service.followed_runs._rings.get(header.id)
        assert ring is not None
        assert ring.size < 20_000
    told = [event for event in seen if event is not None]
    assert [event for event in told if isinstance(event.id, int)] == recorded
    (gap,) = [event for event in told if event.event == "gap"]
    last = [event.data["n"] for event in told if event.event == "progress"][-20:]
    assert last == list(range(980, 1000))
    assert gap.data["missed"] + len([event for event in told if event.event == "progress"]) == 1000


async def test_a_follower_from_before_a_restart_is_told_of_the_gap_and_gets_every_recorded_event(tmp_path: Path) -> None:
    async with chatty(tmp_path) as service, asyncio.timeout(30):
        response = await service.invoke(request(times=60), LOCAL)
        recorded = [event async for event in service.follow(response.run_id, LOCAL) if event is not None]
        again = [event async for event in service.follow(response.run_id, LOCAL, after="2.ffffffff.9") if event is not None]
    assert [event.data for event in again if event.event == "gap"] == [{"missed": None}]
    assert [event for event in again if event.event != "gap"] == [event for event in recorded if event.id > 2]  # type: ignore[operator]


@pytest.mark.parametrize("limits,says", [({"of_run": 2}, "This run"), ({"of_tenant": 2}, "The tenant"), ({"all": 2}, "This process")])
async def test_one_follower_too_many_is_refused_in_words_and_leaving_makes_room(tmp_path: Path, limits: dict[str, int], says: str) -> None:
    async with chatty(tmp_path, limits=FollowerLimits(**limits)) as service, asyncio.timeout(30):
        response = await service.invoke(request(times=1), LOCAL)
        two = [service.follow(response.run_id, LOCAL) for _ in range(2)]
        for follower in two:
            await anext(follower)
        with pytest.raises(Overloaded, match=f"{says} has 2 followers"):
            await anext(service.follow(response.run_id, LOCAL))
        await two[0].aclose()
        assert await anext(service.follow(response.run_id, LOCAL)) is not None
        await two[1].aclose()
    assert not service.followed_runs._followers


# --- programs


def test_programs_follow_a_run_through_their_engine(tmp_path: Path) -> None:
    file = write(tmp_path, SOURCE, counting=page("counting", attempts=1))
    inline = WorkerSettings(policy=Policy(isolation="inline"))

    async def awaiting() -> list[str]:
        async with holdfast.open(":memory:", workers=[file], worker_settings=inline) as engine:
            run = await engine.run("counting", {}, wait=0)
            return [event.event async for event in engine.follow(run.run_id)]

    with holdfast.open(":memory:", workers=[file], worker_settings=inline) as engine:
        run = engine.run("counting", {}, wait=0)
        events = list(engine.follow(run.run_id))
        first = next(iter(engine.follow(run.run_id)))  # a program may stop early
    assert [event.event for event in events if isinstance(event.id, int)] == ["accepted", "done"]
    assert (first, events[-1].data["outputs"]) == (events[0], {"n": 1})
    told = asyncio.run(awaiting())
    assert (told[0], told[-1]) == ("accepted", "done")
