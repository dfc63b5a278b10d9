"""`holdfast console`: serves the console of a store alone, without serving functions or workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.cli.arguments import NO_CONSOLE, CodecOption, StoreOption, StorePlace
from holdfast.cli.keys_secret import with_taken
from holdfast.cli.serve import HostOption, HostsOption, OriginsOption, PortOption, cannot_listen, told_to_leave, url_of
from holdfast.cli.server_loop import server_loop
from holdfast.cli.terminal import say, warn_of_root
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.store.shown_address import shown


def console(
    host: HostOption = "127.0.0.1",
    port: PortOption = 9002,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, and offer no action that changes anything.")] = False,
    allow_host: HostsOption = None,
    allow_origin: OriginsOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Serve the console of a store, for browsers. It runs nothing: other processes do the work. `holdfast serve` has the console as
    well."""
    place = StorePlace.of(store, codec)
    place.check_lasting(NO_CONSOLE)
    with asyncio.Runner(loop_factory=server_loop("holdfast console")) as runner:
        runner.run(_show(place, host, port, read_only, allow_host or (), allow_origin or ()))


async def _show(place: StorePlace, host: str, port: int, read_only: bool, hosts: Sequence[str], origins: Sequence[str]) -> None:
    from holdfast.console.console import Console, front_door
    from holdfast.web.app import App
    from holdfast.web.auth.gate import open_gate
    from holdfast.web.auth.secret import KeysSecrets
    from holdfast.web.limits import WebLimits
    from holdfast.web.listener import bound, listening

    leaving = told_to_leave()
    warn_of_root()
    place.client().close()  # refuse a store that does not exist, instead of making one
    machine = SystemClock()
    with place.opened() as (opened, clock):
        gate = open_gate(opened, host=host, clock=clock, hosts=hosts, origins=origins, secrets=KeysSecrets(with_taken(), place.where))
        try:
            listener = bound(host, port)
        except OSError as error:
            raise cannot_listen(host, port, error) from None
        pages = Console(opened, place.where, gate, clock=clock, ids=id_at, read_only=read_only)
        app = App([*pages.routes(), *front_door()], WebLimits(), lambda: id_at(machine.now()), gate)
        with contextlib.closing(listener):
            async with listening(app, listener, drain_seconds=2):
                print(f"console: {url_of(host, listener.getsockname()[1])}/console/ of {shown(place.where)}", flush=True)
                print(gate.summary, flush=True)
                await leaving.wait()
                app.close()
                await pages.close()
        await gate.close()
        say("leaving")
