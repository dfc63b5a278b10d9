"""One attempt from the inside: take the order, run the author's function, say what came of it."""

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
from holdfast.workers.body.context import AsyncContext, BlockingContext
from holdfast.workers.body.errors import WorkerError, as_frame
from holdfast.workers.body.links import MOST_ENCODED, Asking, AsyncAsking, Frame, Link, SocketLink, at_least, reading

Function = Callable[[Any, Any], Any]
msgspec.json.Decoder(Contract)  # msgspec takes milliseconds to learn a type: once in the stub, not in every body that is forked from it
_MOST_OUTPUT = 1024 * 1024 - 1024
"""A frame may have a MiB, with what is around the outputs."""


def enter(fd: int, module: str, function: str) -> None:
    """What a jail calls: import the author's code, behind the locks, and serve one attempt."""
    serve(socket.socket(fileno=fd), getattr(importlib.import_module(module), function))


def serve(sock: socket.socket, function: Function) -> None:
    """Serve one attempt over a socket, from `ready` to `done` or `failed`."""
    link = SocketLink(sock)
    if not inspect.iscoroutinefunction(function):
        link.send({"op": "ready"})
        link.send(answered(link, function, link.receive()[0]))
        return
    with asyncio.Runner() as runner:
        runner.run(asyncio.sleep(0))  # the loop is made while the spare waits, not when its order has come
        link.send({"op": "ready"})
        runner.run(_served(link, function, link.receive()[0]))


async def _served(link: SocketLink, function: Function, run: Frame) -> None:
    asking = AsyncAsking(link)
    with reading(link, asking.answered, lambda: os._exit(1)):  # nobody is left to answer to
        link.send(await awaited(asking, function, run))


def answered(link: Link, function: Function, run: Frame) -> Frame:
    """What a `def` body came to."""
    try:
        context = BlockingContext(Asking(link), run, _contract(run))
        return done(function(run["inputs"], context))
    except BaseException as error:
        return {"op": "failed", "error": as_frame(error)}


async def awaited(asking: AsyncAsking, function: Function, run: Frame) -> Frame:
    """What an `async def` body came to."""
    try:
        context = AsyncContext(asking, run, _contract(run))
        return done(await function(run["inputs"], context))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return {"op": "failed", "error": as_frame(error)}


def done(outputs: Any) -> Frame:
    """The last frame of a body that came to its end; outputs that are no JSON break its promise like any others that do not fit."""
    if at_least(outputs, MOST_ENCODED) > MOST_ENCODED:
        raise _too_large(f"more than {MOST_ENCODED:,}")
    try:
        text = codec.dumps(outputs, sort=False)
    except (HoldfastError, RecursionError) as odd:
        raise WorkerError("output_schema_mismatch", f"The outputs do not fit: {odd}") from None
    if (size := len(text.encode())) > _MOST_OUTPUT:
        raise _too_large(f"{size:,}")
    return {"op": "done", "outputs": msgspec.json.decode(text)}


def _too_large(size: str) -> WorkerError:
    told = f"The outputs have {size} bytes, and {_MOST_OUTPUT:,} may be returned."
    return WorkerError("artifact_too_large", f"{told} Keep what is large with ctx.artifact, and return its reference.")


def _contract(run: Frame) -> Contract:
    given = run["contract"]
    return given if isinstance(given, Contract) else msgspec.convert(given, Contract)
