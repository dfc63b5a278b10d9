"""The console of `holdfast serve` and `holdfast dev`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.console.server_process import ServerProcess
    from holdfast.model.clock import Clock
    from holdfast.service.settings import Settings
    from holdfast.web.auth.gate import Gate
    from holdfast.web.routing import Route


@contextlib.asynccontextmanager
async def console_routes(settings: Settings, gate: Gate, clock: Clock, served: ServerProcess) -> AsyncIterator[Sequence[Route]]:
    """The routes of the console, and `GET /`. The console is closed when the block ends. There are no routes for a store in memory: the
    console has its own connection to the store, and a second connection to a store in memory would open another, empty store."""
    from holdfast.console.console import front_door, open_console

    if settings.store == ":memory:":
        yield ()
        return
    async with open_console(settings.store, gate, clock=clock, ids=settings.ids, codec=settings.codec, served=served) as console:
        yield [*console.routes(), *front_door()]
