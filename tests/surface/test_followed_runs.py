"""Following a run from another process: over HTTP and with `holdfast runs follow --url`, through lost connections and a killed server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import remote_events as remote
from holdfast.cli.remote_events import RemoteEvent, remote_events
from holdfast.contract.refusals import Overloaded
from holdfast.model.errors import AccessRefused, ExecutionNotFound, HoldfastError, InvalidParameter
from tests.surface import cli_program
from tests.surface.cli_program import Program as Cli
from tests.surface.serve_program import Program, programs
from tests.surface.served_workers import ask, events_of, web
from tests.tools.models import a_model
from tests.tools.servers import Asked, head, site
from tests.workers.pages import page, write

STREAM = {"content-type": "text/event-stream"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_AGAIN_SECONDS", 0.0)


async def received(url: str, after: str | None = None, token: str | None = None) -> list[RemoteEvent]:
    return await asyncio.to_thread(lambda: list(remote_events(url, "r 1", token, after)))


async def test_a_lost_connection_is_made_again_after_the_last_event_that_came() -> None:
    texts = iter(
        [
            b": hello\nretry: 2000\n\nid: 1\nevent: accepted\ndata: {}\n\n"
            b'id: 1.0a1b2c3d.4\r\nevent: tokens\r\ndata: {"text":"H\xc3\xa9"}\r\n\r\nid: 2\nev',
            b"",
            b'id: 2\nevent: done\ndata: {"status":"ok"}\n\n',
        ]
    )
    async with site() as web:

        async def serve(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(head(200, STREAM) + next(texts))

        web.pages["/v1/runs/r%201/events"] = serve
        told = await received(web.url, token="hf_x")
    assert told == [
        RemoteEvent(1, "accepted", {}),
        RemoteEvent("1.0a1b2c3d.4", "tokens", {"text": "Hé"}),
        RemoteEvent(2, "done", {"status": "ok"}),
    ]
    assert [asked.headers.get("last-event-id") for asked in web.asked] == [None, "1.0a1b2c3d.4", "1.0a1b2c3d.4"]
    assert {asked.headers["authorization"] for asked in web.asked} == {"Bearer hf_x"}


@pytest.mark.parametrize("status,kind,says,times", [
    (404, ExecutionNotFound, "no run", 1), (401, AccessRefused, "HOLDFAST_TOKEN", 1), (400, InvalidParameter, "no run", 1),
    (503, Overloaded, "10 times in a row", 10), (500, InvalidParameter, "500", 1),
])  # fmt: skip
async def test_a_refusal_of_the_server_is_told_and_only_a_passing_one_is_tried_again(
    status: int, kind: type[HoldfastError], says: str, times: int
) -> None:
    async with site() as web:
        web.page("/v1/runs/r%201/events", json.dumps({"error": {"message": "there is no run"}}), status)
        with pytest.raises(kind, match=says):
            await received(web.url)
    assert len(web.asked) == times


async def test_a_server_that_is_not_there_and_an_address_that_is_none_are_told() -> None:
    with pytest.raises(Overloaded, match="could not be reached"):
        await received("http://127.0.0.1:1")
    with pytest.raises(InvalidParameter, match="--url"):
        await received("ftp://example")


async def test_a_run_whose_last_event_came_is_over_at_once() -> None:
    async with site() as web:
        web.page("/v1/runs/r%201/events", b"", 204)
        assert await received(web.url, after="7") == []


async def test_a_line_without_an_end_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MOST_LINE", 1000)
    async with site() as web:
        web.page("/v1/runs/r%201/events", b"data: " + b"x" * 2000, 200, content_type="text/event-stream")
        with pytest.raises(InvalidParameter, match="more than 1,000 bytes"):
            await received(web.url)


# --- the real programs

SOURCE = """
from holdfast import WorkerContext, worker


@worker("thinking.md")
async def think(inputs: dict, ctx: WorkerContext) -> dict:
    ctx.progress({"thinking": True})
    return {"said": await ctx.tools.language_model(prompt="x")}
"""


async def until(fact: Callable[[], Any]) -> None:
    await asyncio.to_thread(cli_program.until, lambda: fact() or None)


@contextlib.contextmanager
def following(folder: Path, run: str, url: str, lines: list[dict[str, Any]]) -> Iterator[Any]:
    """`holdfast runs follow` in a process of its own, and what it prints."""
    follower = Cli(folder).begin("runs", "follow", run, "--url", url, "--json")
    out, errors = follower.stdout, follower.stderr
    assert out is not None
    assert errors is not None
    reading = threading.Thread(target=lambda: lines.extend(json.loads(line) for line in out))
    reading.start()
    try:
        yield follower
    finally:
        follower.kill()
        follower.wait(60)
        reading.join()
        out.close()
        errors.close()


@pytest.mark.long
async def test_text_goes_on_after_the_server_was_killed_in_the_middle_of_it_and_the_stream_shows_it(tmp_path: Path) -> None:
    async with a_model() as model:
        write(tmp_path, SOURCE, thinking=page("thinking", "language_model", attempts=1, timeout_seconds=120))
        (tmp_path / "holdfast.toml").write_text(f'[model]\nbase_url = "{model.url}"\nmodel = "m"\n')
        model.streams("Once upon ")
        with programs(tmp_path) as started:

            def begin(port: int = 0) -> Program:
                return started.begun("worker.py", "--trust", port=port).started("/v1/workers/")

            first = await asyncio.to_thread(begin)
            port = int(first.url.rsplit(":", 1)[1])
            with web(first) as client:
                run = (await asyncio.to_thread(ask, client, "thinking", {}, headers={"Prefer": "respond-async"})).json()["run_id"]
            lines: list[dict[str, Any]] = []
            with following(tmp_path, run, first.url, lines) as follower:
                await until(lambda: any(line["event"] == "tokens" for line in lines))
                await asyncio.to_thread(first.kill)
                model.feed = None
                model.streams("Again. ", None)  # for the call that is made again
                second = await asyncio.to_thread(begin, port)
                assert await asyncio.to_thread(follower.wait, 60) == 0
            with web(second) as client:
                recorded = events_of((await asyncio.to_thread(client.get, f"/v1/runs/{run}/events")).text)
    numbered = [line["id"] for line in lines if isinstance(line["id"], int)]
    assert numbered == [int(id) for id, _, _ in recorded if id is not None and id.isdecimal()]  # each recorded event once
    texts = [(line["data"]["try"], line["data"]["text"]) for line in lines if line["event"] == "tokens"]
    assert texts[0] == (1, "Once upon ")
    assert "".join(text for number, text in texts if number == 2) == "Again. "
    states = [line["data"]["state"] for line in lines if line["event"] == "tool"]
    assert states == ["began", "lost", "began", "ended"]
    assert [line["event"] for line in lines].count("gap") == 1
    assert lines[-1]["data"]["outputs"] == {"said": "Again. "}
    assert len(model.asked) == 2
