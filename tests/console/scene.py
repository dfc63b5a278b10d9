"""A console over a real store, with callers of every role: the pages are asked for through the whole app, gate included."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx

from holdfast.console.console import Console
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.codec import dumps
from holdfast.model.execution import Execution, State, Terms
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.model.verbs import Start, Started
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from tests.surface.auth_server import BASE, token
from tests.surface.serve_program import until

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Browser:
    """A person at the console: it keeps cookies, and sends forms as a browser does."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str = "", *, expect: int = 200, **options: Any) -> httpx.Response:
        """A page, by its path in the console."""
        answer = await self.client.get(f"/console/{path}", **options)
        assert answer.status_code == expect, (path, answer.status_code, answer.text[:2000])
        return answer

    async def text(self, path: str = "", *, expect: int = 200) -> str:
        """What a person reads on a page: its text, without markup."""
        return plain((await self.get(path, expect=expect)).text)

    async def csrf(self) -> str:
        """The token of this caller's forms."""
        found = _CSRF.search((await self.get("runs")).text)
        assert found is not None
        return html.unescape(found[1])

    async def post(self, path: str, *, expect: int = 303, csrf: str | None = None, **fields: Any) -> httpx.Response:
        """Send a form."""
        sent = {"csrf": await self.csrf() if csrf is None else csrf, **fields}
        answer = await self.client.post(f"/console/{path}", data=sent, headers={"Origin": BASE})
        assert answer.status_code == expect, (path, answer.status_code, plain(answer.text)[:2000])
        return answer

    async def log_in(self, secret: str) -> Browser:
        """Give a token on the page with the login."""
        answer = await self.client.post("/console/login", data={"token": secret, "next": "runs"}, headers={"Origin": BASE})
        assert answer.status_code == 303, plain(answer.text)[:500]
        return self


class Scene:
    """A store with a console."""

    def __init__(self, store: Store, where: str, clock: Clock) -> None:
        self.store = store
        self.where = where
        self.clock = clock

    def start(self, function: str, payload: object = None, *, tenant: str | None = None, name: str | None = None) -> Execution:
        """An execution that is ready, and that no runner takes."""
        now, text = self.clock.now(), dumps(payload)
        header = new_execution(id_at(now), name, function, "1", payload=text, now=now, terms=Terms(), tenant=tenant)
        (answer,) = self.store.commit([Start(header, text)], now).answers
        assert isinstance(answer, Started)
        return answer.header

    @contextlib.asynccontextmanager
    async def browser(
        self, *roles: str, tenant: str | None = None, person: str | None = None, read_only: bool = False
    ) -> AsyncIterator[Browser]:
        """A person who is logged in with these roles; without roles, one of a server that needs no login."""
        issued = token(self.store, *roles, now=self.clock.now(), tenant=tenant, person=person) if roles else None
        async with self.app(read_only=read_only) as app, client_of(app) as client:
            found = Browser(client)
            yield found if issued is None else await found.log_in(issued.secret)

    @contextlib.asynccontextmanager
    async def app(self, *, read_only: bool = False) -> AsyncIterator[App]:
        """The app, with the console's routes only."""
        gate = open_gate(self.store, host="127.0.0.1", clock=self.clock)
        console = Console(self.store, self.where, gate, clock=self.clock, ids=id_at, read_only=read_only)
        try:
            yield App(console.routes(), WebLimits(), lambda: id_at(self.clock.now()), gate)
        finally:
            await console.close()
            await gate.close()


async def reached(scene: Scene, execution: str, state: State = State.SUSPENDED) -> None:
    """Wait until an execution is in this state; usually until it waits for something outside."""

    def is_there() -> bool:
        header = scene.store.find(execution)
        return header is not None and header.state is state

    await asyncio.to_thread(until, is_there, f"{execution} to be {state.value}")


@contextlib.contextmanager
def scene(folder: Path, clock: Clock | None = None) -> Iterator[Scene]:
    """A new store in a folder, or the store that is there."""
    where, clock = str(folder / "console.db"), clock or SystemClock()
    with contextlib.closing(open_store(where, id_at(clock.now()))) as store:
        yield Scene(store, where, store.clock(clock))


def client_of(app: App) -> httpx.AsyncClient:
    """A client that follows no redirects by itself."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE)


def plain(page: str) -> str:
    """The text of a page, without its markup, its spaces folded."""
    without = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", page, flags=re.S)
    return " ".join(html.unescape(without).split())
