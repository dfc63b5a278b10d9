"""`holdfast dev`: serves targets, reloads them on every change, and opens the console in the browser. Without a target it serves a sample
and starts a run of it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli.arguments import NO_CONSOLE, CodecOption, ConfigOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.sample import PIPELINE, Sample, sample_of
from holdfast.cli.serve import HostOption, ParametersOption, PortOption, ServeOptions, TargetsArgument, read_parameters, serve_until_told
from holdfast.cli.serve_workers import IsolationOption, ServeWorkers
from holdfast.cli.server_loop import server_loop
from holdfast.cli.terminal import printable, say
from holdfast.model.execution import ExecutionStatus
from holdfast.operator.trust import TrustBook

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCREENS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def dev(
    targets: TargetsArgument = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 9001,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the console in a browser.")] = False,
    parameter: ParametersOption = None,
    isolation: IsolationOption = None,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Serve targets while you work on them: changed code is published as a new version, and the console opens in the browser.

    Without a target, it serves a sample pipeline and starts a run of it. The sample needs no key and no network.
    """
    place = StorePlace.of(store, codec)
    place.check_lasting(NO_CONSOLE)
    options = ServeOptions(
        targets=targets or (),
        host=host,
        port=port,
        place=place,
        reload=True,
        parameters=read_parameters(parameter or ()),
        isolation=isolation,
        config=config,
        trust=trust,
    )
    if targets:
        serve_until_told(msgspec.structs.replace(options, when_served=_Greeting(opens=not no_open)))
    else:
        _serve_sample(options, opens=not no_open)


def _serve_sample(options: ServeOptions, *, opens: bool) -> None:
    server_loop("holdfast dev")  # before anything is written: the server may not be installed
    sample = sample_of(options.place.where)
    is_ours = _needs_no_trust(options.place, sample)
    sample.fill()
    with sample.web() as web:
        say(f"the sample is in {printable(str(sample.folder))}; change it, and the next run has the change. Its web is {web}")
        if is_ours:
            TrustBook().add(sample.folder)
        served = msgspec.structs.replace(
            options,
            targets=[sample.target],
            config=options.config or sample.config,
            place=msgspec.structs.replace(options.place, found=options.place.found and not is_ours),
            when_served=_Greeting(opens=opens, sample=sample),
        )
        serve_until_told(served)


def _needs_no_trust(place: StorePlace, sample: Sample) -> bool:
    """Whether the user need not trust the folder of the store first: the user named the store (`--store`, `HOLDFAST_STORE`), or there is no
    store yet, or an earlier `holdfast dev` made it: then the sample's folder is in the record of trusted folders."""
    return not place.found or not Path(place.where).exists() or TrustBook().trusts(sample.folder)


class _Greeting:
    """What the command does as soon as the server listens: it starts the sample's run, if the sample is served, and opens the console, if
    `opens` is set and there is a screen."""

    def __init__(self, *, opens: bool, sample: Sample | None = None) -> None:
        self._opens = opens
        self._sample = sample

    async def __call__(self, url: str, workers: ServeWorkers | None) -> None:
        if self._sample is not None and workers is not None:
            print(await _started(self._sample, workers))
            sys.stdout.flush()
        if self._opens and _has_screen(os.environ):
            console = f"{url}/console/"
            say(f"opening {console} in the browser")
            opening = threading.Thread(target=_open, args=[console], name="browser", daemon=True)  # a browser may keep its caller waiting
            opening.start()


async def _started(sample: Sample, workers: ServeWorkers) -> str:
    """Start the run of the sample, or find an earlier one: the idempotency key of the run depends only on the port of the sample's web
    server. Returns a line for the user: the run runs, has run already, or could not be started."""
    from holdfast.contract.protocol import Response

    asked = {"worker_id": PIPELINE, "inputs": sample.inputs(), "idempotency_key": f"dev-sample-{sample.port}"}
    begun = await workers.runtime.worker_service.begin_asked(asked, "default")
    if isinstance(begun, Response):
        why = "" if begun.error is None else f": {begun.error.error_code}: {begun.error.message}"
        return f"The sample could not be started{printable(why)}"
    header = begun[0]
    if header.status is not ExecutionStatus.RUNNING:
        return f"The sample has run already: {header.id} ({header.status.value})."
    return f"The sample runs: {header.id}. It will wait for a person: decide in the console, or with `holdfast approvals list`."


def _has_screen(environment: Mapping[str, str]) -> bool:
    """Whether there is a screen on which a browser can open. Without one, Python may start a browser for text, which would take over the
    terminal."""
    return sys.platform == "darwin" or any(environment.get(name) for name in _SCREENS)


def _open(url: str) -> None:
    with contextlib.suppress(Exception):  # the address is printed, so an error of the browser is ignored
        webbrowser.open(url)
