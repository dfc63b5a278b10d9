"""One attempt inside the sandbox: receive the frame `run` (inputs, contract, time), run the author's function, send its result."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.contract.terms import Contract
from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.model.json_structs import converted, decoder
from holdfast.workers.body.context import AsyncContext, BlockingContext
from holdfast.workers.body.errors import WorkerError, as_frame
from holdfast.workers.body.runner_connection import MOST_ENCODED, Asking, AsyncAsking, BodyFrame, RunnerConnection, SocketLink, reading

BodyFunction = Callable[[Any, Any], Any]
decoder(Contract)  # msgspec needs milliseconds to prepare a type. Done here, this happens once, before the bodies are forked
_MOST_OUTPUT = 1024 * 1024 - 1024
"""The most bytes of the outputs as JSON. A frame has at most 1 MiB; one KiB of it is left for the text around the outputs."""


def enter(fd: int, module: str, function: str) -> None:
    """Import the author's code inside the sandbox, and serve one attempt. The jail calls this function. `fd` is the descriptor of the
    socket to the runner; `module` and `function` name the body."""
    serve(socket.socket(fileno=fd), getattr(importlib.import_module(module), function))


def serve(sock: socket.socket, function: BodyFunction) -> None:
    """Serve one attempt over a socket: send `ready`, wait for the order, run the function, send `done` or `failed`."""
    link = SocketLink(sock)
    if not inspect.iscoroutinefunction(function):
        link.send({"op": "ready"})
        link.send(answered(link, function, link.receive()[0]))
        return
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))  # makes the event loop now, before the frame `run` arrives: this body may be a spare
        link.send({"op": "ready"})
        runner.run(_served(link, function, link.receive()[0]))


async def _served(link: SocketLink, function: BodyFunction, run: BodyFrame) -> None:
    asking = AsyncAsking(link)
    with reading(link, asking.answered, lambda: os._exit(1)):  # the runner has closed the connection
        link.send(await awaited(asking, function, run))


def answered(link: RunnerConnection, function: BodyFunction, run: BodyFrame) -> BodyFrame:
    """Run a `def` body with the order `run`. Returns the body's last frame: `done` with the outputs, or `failed` with the error."""
    try:
        context = BlockingContext(Asking(link), run, _contract(run))
        return done(function(run["inputs"], context))
    except BaseException as error:
        return {"op": "failed", "error": as_frame(error)}


async def awaited(asking: AsyncAsking, function: BodyFunction, run: BodyFrame) -> BodyFrame:
    """Run an `async def` body with the order `run`. Returns the body's last frame: `done` with the outputs, or `failed` with the error."""
    try:
        context = AsyncContext(asking, run, _contract(run))
        return done(await function(run["inputs"], context))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return {"op": "failed", "error": as_frame(error)}


def done(outputs: Any) -> BodyFrame:
    """The last frame of a body that returned these outputs. Raises WorkerError if the outputs are not JSON, or are too large."""
    if codec.at_least(outputs, MOST_ENCODED) > MOST_ENCODED:
        raise _too_large(f"more than {MOST_ENCODED:,}")
    try:
        text = codec.dumps(outputs, sort=False)
    except (HoldfastError, RecursionError) as odd:
        raise WorkerError("output_schema_mismatch", f"The outputs are not JSON: {odd}") from None
    if (size := len(text.encode())) > _MOST_OUTPUT:
        raise _too_large(f"{size:,}")
    return {"op": "done", "outputs": msgspec.json.decode(text)}


def _too_large(size: str) -> WorkerError:
    told = f"The outputs have {size} bytes as JSON, and at most {_MOST_OUTPUT:,} may be returned."
    return WorkerError("artifact_too_large", f"{told} Store large values with ctx.artifact, and return their references.")


def _contract(run: BodyFrame) -> Contract:
    given = run["contract"]
    return given if isinstance(given, Contract) else converted(given, Contract)
