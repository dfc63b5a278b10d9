"""GET /events: what a browser or curl sees while executions begin and end, over a real connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
import uvicorn

from holdfast.model.clock import SystemClock
from holdfast.model.execution import ExecutionStatus, Terms
from holdfast.model.ids import Arn, id_at
from holdfast.model.life import new_execution
from holdfast.model.outside import Stop
from holdfast.model.verbs import Start
from holdfast.server.events import Events
from holdfast.signals.broadcast import Broadcaster
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from holdfast.web.routing import Route
from tests.surface.auth_server import bearer, every_route, telling, token

ENDS = quote(json.dumps({"detail": {"status": [{"anything-but": "RUNNING"}]}}))


@pytest.fixture
def store() -> Iterator[Store]:
    with contextlib.closing(open_store(":memory:", "here")) as store:
        store.join("here", 2**62)
        store.subscribe("events")
        store.take_delivery("events", "here")
        yield store


class Server:
    """A server with a store, whose signals are told when a test says so."""

    def __init__(self, store: Store, broadcaster: Broadcaster, address: str) -> None:
        self.store = store
        self.broadcaster = broadcaster
        self.address = address
        self._told = 0

    async def tell(self) -> None:
        """What the engine's outbox does."""
        for signal in self.store.kept_signals(self._told, 1000):
            await self.broadcaster(signal)
            self._told = signal.number

    async def start(self, name: str, tenant: str | None = None) -> str:
        header = new_execution(id_at(0), name, "order", "$LATEST", payload="{}", now=0, terms=Terms())
        self.store.commit([Start(msgspec.structs.replace(header, tenant=tenant), "{}")], 0)
        await self.tell()
        return header.id

    async def stop(self, execution: str) -> None:
        self.store.commit([Stop(execution)], 1)
        await self.tell()


@contextlib.asynccontextmanager
async def serving(store: Store, **options: Any) -> AsyncIterator[Server]:
    broadcaster = Broadcaster(**options.pop("broadcaster", {}))
    others = [route._replace(handler=telling) for route in every_route() if route.path != "/events"]
    routes: list[Route] = [*Events(broadcaster, store, **options).routes(), *others]
    app = App(routes, WebLimits(), lambda: "id", open_gate(store, host="127.0.0.1", clock=SystemClock()))
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield Server(store, broadcaster, f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            broadcaster.close()
            server.should_exit = True
            await running


class Stream:
    """What a listener reads."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._blocks = self._read()

    async def _read(self) -> AsyncIterator[dict[str, str]]:
        block: dict[str, str] = {}
        async for line in self.answer.aiter_lines():
            if line:
                name, _, value = line.partition(":")
                block[name] = value.strip()
            else:
                yield block
                block = {}

    async def block(self) -> dict[str, str]:
        async with asyncio.timeout(20):
            return await anext(self._blocks)

    async def events(self, count: int) -> list[tuple[str, str]]:
        """The next events: names and statuses, `gap` for a gap."""
        found = list[tuple[str, str]]()
        while len(found) < count:
            block = await self.block()
            if block.get("event") == "gap":
                found.append(("gap", ""))
            elif "data" in block:
                detail = json.loads(block["data"])["detail"]
                found.append((detail["durableExecutionName"], detail["status"]))
        return found


@contextlib.asynccontextmanager
async def listening(server: Server, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        client.stream("GET", f"{server.address}/events{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        stream = Stream(answer)
        assert await stream.block() == {"retry": "2000"}
        yield stream


async def test_a_listener_hears_of_every_change_as_an_event_with_an_id(store: Store) -> None:
    async with serving(store) as server, listening(server) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.answer.headers["cache-control"] == "no-store"
        execution = await server.start("a")
        await server.stop(execution)
        first = await stream.block()
        event = json.loads(first["data"])
        assert (first["id"], event["detail"]["durableExecutionArn"]) == ("1", str(Arn("order", "$LATEST", "a", execution)))
        assert await stream.events(1) == [("a", ExecutionStatus.STOPPED)]


async def test_a_listener_hears_only_of_what_its_pattern_wants(store: Store) -> None:
    async with serving(store) as server, listening(server, f"?pattern={ENDS}") as stream:
        for name in "ab":
            await server.stop(await server.start(name))
        assert await stream.events(2) == [("a", "STOPPED"), ("b", "STOPPED")]


@pytest.mark.parametrize("how", ["header", "query"])
async def test_a_listener_that_comes_back_goes_on_where_it_was(store: Store, how: str) -> None:
    async with serving(store, broadcaster={"recent": 2}) as server:
        for name in "abcdef":
            await server.start(name)
        query, headers = ("", {"Last-Event-ID": "2"}) if how == "header" else ("?last_event_id=2", {})
        async with listening(server, query, **headers) as stream:
            await server.start("g")
            assert [name for name, _ in await stream.events(5)] == ["c", "d", "e", "f", "g"]


async def test_a_listener_is_told_of_a_gap(store: Store) -> None:
    async with serving(store, broadcaster={"recent": 1}) as server:
        for name in "abc":
            await server.start(name)
        store.delivered("events", "here", 3)
        while store.expire(0, 100):
            pass
        async with listening(server, "?last_event_id=1") as stream:
            assert await stream.events(2) == [("gap", ""), ("c", "RUNNING")]


async def test_a_heartbeat_comes_when_nothing_else_does(store: Store) -> None:
    async with serving(store, heartbeat_seconds=0.01) as server, listening(server) as stream:
        assert await stream.block() == {"": ""}


async def test_closing_ends_every_stream(store: Store) -> None:
    async with serving(store) as server, listening(server) as stream:
        await server.start("a")
        server.broadcaster.close()
        await stream.events(1)
        with pytest.raises(StopAsyncIteration):
            await stream.block()


async def test_a_listener_that_leaves_is_forgotten(store: Store) -> None:
    async with serving(store, broadcaster={"listeners": 1}) as server:
        for _ in range(3):
            async with asyncio.timeout(20):
                while True:  # until the server has noticed that the one before is gone
                    with contextlib.suppress(AssertionError):
                        async with listening(server):
                            break


@pytest.mark.parametrize(
    "query, code",
    [
        ("?pattern=nonsense", "pattern_invalid"),
        ("?pattern=" + quote('{"detail":{"status":"FAILED"}}'), "pattern_invalid"),
        ("?last_event_id=-1", "invalid_parameter"),
        ("?last_event_id=" + "9" * 5000, "invalid_parameter"),
        ("?status=FAILED", "invalid_parameter"),
    ],
)
async def test_a_bad_question_is_refused_clearly(store: Store, query: str, code: str) -> None:
    async with serving(store) as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{server.address}/events{query}")
        assert (answer.status_code, answer.json()["error"]) == (400, code)


async def test_too_many_listeners_are_told_to_come_back(store: Store) -> None:
    async with serving(store, broadcaster={"listeners": 0}) as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{server.address}/events")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_other_paths_and_methods_are_no_stream(store: Store) -> None:
    async with serving(store) as server, httpx.AsyncClient(trust_env=False) as client:
        for method, path, status in (("GET", "/health", 200), ("POST", "/events", 405), ("GET", "/events/x", 404)):
            assert (await client.request(method, server.address + path)).status_code == status
        assert (await client.head(f"{server.address}/events")).headers["content-type"].startswith("text/event-stream")


async def test_a_tenant_hears_only_of_its_own(store: Store) -> None:
    north, everybody = token(store, "viewer", tenant="north"), token(store, "viewer")
    async with serving(store) as server:
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{server.address}/events")).status_code == 401
        async with listening(server, **bearer(north)) as theirs, listening(server, **bearer(everybody)) as all_of_them:
            for name, tenant in (("a", "south"), ("b", "north"), ("c", None), ("d", "north")):
                await server.start(name, tenant)
            assert [name for name, _ in await theirs.events(2)] == ["b", "d"]
            assert [name for name, _ in await all_of_them.events(4)] == ["a", "b", "c", "d"]


async def test_whoever_reads_nothing_is_let_go(store: Store) -> None:
    """A client that holds its connection open and reads nothing delays no other client, and its place is free again."""
    broadcaster = Broadcaster(listeners=1)
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/events", "query_string": b"", "headers": []}
    await App(Events(broadcaster, store).routes(), WebLimits(stream_seconds=0.01), lambda: "id")(scope, receive, send)
    assert len(sent) == 2
    async with broadcaster.listen():
        pass
