"""Builds the console: opens a store, makes the source of each request, and makes the routes of all pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from holdfast.console.bulk_jobs import BulkJobs
from holdfast.console.login import Login
from holdfast.console.page_errors import PAGES, PREFIX, error_page
from holdfast.console.page_request import PageRequest
from holdfast.console.pages.approvals import ApprovalsPages
from holdfast.console.pages.audit import AuditPages
from holdfast.console.pages.bulk import BulkPages
from holdfast.console.pages.catalog import CatalogPages
from holdfast.console.pages.compare import ComparePages
from holdfast.console.pages.cost import CostPages
from holdfast.console.pages.home import HomePages
from holdfast.console.pages.keys import KeysPages
from holdfast.console.pages.queues import QueuesPages
from holdfast.console.pages.restarts import RestartPages
from holdfast.console.pages.run import RunPages
from holdfast.console.pages.run_tests import RunTestPages
from holdfast.console.pages.runners import RunnersPages
from holdfast.console.pages.runs import RunsPages
from holdfast.console.pages.schedules import SchedulesPages
from holdfast.console.pages.signals import SignalsPages
from holdfast.console.rendering import Rendering
from holdfast.console.server_process import ServerProcess
from holdfast.console.site import Site
from holdfast.console.source import Source
from holdfast.console.sources.viewer import Viewer
from holdfast.console.static_files import ConsoleFiles
from holdfast.console.ticks import Ticks
from holdfast.model.clock import Clock
from holdfast.model.ids import IdSource
from holdfast.model.payloads import PayloadCodec
from holdfast.model.threads import Purpose, in_thread
from holdfast.service.opened_store import opened_store
from holdfast.store.seam import Store
from holdfast.store.shown_address import shown
from holdfast.web.auth.gate import Gate
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group


class Console:
    """The console of one store. It makes the routes of all its pages."""

    def __init__(
        self,
        store: Store,
        where: str,
        gate: Gate,
        *,
        clock: Clock,
        ids: IdSource,
        read_only: bool = False,
        served: ServerProcess | None = None,
    ) -> None:
        self._store = store
        self._where = shown(where)
        self._clock = clock
        self._ids = ids
        self._gate = gate
        self._served = served
        self._ticks = Ticks(store)
        self._bulk = BulkJobs(clock, ids, acted=self._ticks.touch)
        self._site = Site(self._source, Rendering(), clock, gate.sessions, read_only=read_only, acted=self._ticks.touch)

    def routes(self) -> Sequence[Route]:
        site = self._site
        parts = (
            ConsoleFiles(),
            Login(site, site.rendering, self._gate),
            self._ticks,
            RunsPages(site),
            ApprovalsPages(site),
            HomePages(site),
            QueuesPages(site),
            SchedulesPages(site),
            CostPages(site),
            RunnersPages(site),
            SignalsPages(site),
            AuditPages(site),
            KeysPages(site),
            BulkPages(site, self._bulk),
            CatalogPages(site),
            RestartPages(site),
            RunPages(site),
            ComparePages(site),
            RunTestPages(site),
        )
        first = RoutePolicy("ConsolePlace", Needs.NOTHING, Reach.ALL)
        begin = Route("GET", PREFIX.rstrip("/"), _to_first_page, first)
        rest = site.page(".*", _missing, "ConsolePage")
        return in_group(PAGES, [begin, *(route for part in parts for route in part.routes()), rest])

    async def close(self) -> None:
        """End the streams of open pages. Cancel the jobs that act on many runs, and wait at most 5 seconds for the thread of each."""
        await self._ticks.close()
        await in_thread(Purpose.CONSOLE, self._bulk.close)

    def _source(self, request: Request) -> Source:
        viewer = Viewer(
            self._store,
            self._where,
            clock=self._clock,
            ids=self._ids,
            caller=caller_of(request),
            actor=request.actor,
            tenant=request.tenant,
            served=self._served,
        )
        return Source(viewer)


@contextlib.asynccontextmanager
async def open_console(
    where: str,
    gate: Gate,
    *,
    clock: Clock,
    ids: IdSource,
    codec: PayloadCodec | None = None,
    served: ServerProcess | None = None,
) -> AsyncIterator[Console]:
    """Open the console of the store at `where`, and close it when the block ends. The console has its own connection to the store, so that
    pages and runs do not wait for each other. `served` is the server in whose process it runs; None if there is no such server."""
    with opened_store(where, clock, codec, ids=ids) as store:
        console = Console(store, where, gate, clock=clock, ids=ids, served=served)
        try:
            yield console
        finally:
            await console.close()


def _missing(request: PageRequest) -> Reply:
    return error_page(request.http, 404, "not_found", "The console has no such page.")


async def _to_first_page(request: Request) -> Reply:
    return Reply(308, headers=((b"location", b"console/"),))


def front_door() -> list[Route]:
    """The route `GET /`, for a server that has the console. It redirects to the console, so that a person need not know its path."""
    return [Route("GET", "/", _to_the_console, RoutePolicy("OpenConsole", Needs.NOTHING, Reach.ALL))]


async def _to_the_console(request: Request) -> Reply:
    """Redirect to the console. The address is relative, so that it also works behind a proxy that adds a path."""
    return Reply(303, headers=((b"location", b"./console/"), (b"cache-control", b"no-store")))
