"""Plans: what an operation does, written once for `def` and `async def` handlers.

A plan is a plain generator. It yields a request, the driver serves it, and the `yield` returns the answer:

    Lookup    which operation does the history have here?              → Operation | None
    Record    write an update; `wait` for the disk, or defer it to the next write
    Run       call user code                                     → its result, or its exception is thrown in
    Accept    ask the service of workers to accept a run         → Order | Failure
    Suspend   go on when this operation has changed
    Spawn     begin another plan beside this one
    NextDone  wait until one of those has ended                  → Done

blocking_driver.py drives plans of `def` handlers, async_driver.py those of `async def` ones. A plan knows neither threads nor loops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.model.operations import Operation, Update
from holdfast.model.run_port import EnqueueAsked, RunAsked

T = TypeVar("T")


class Lookup(msgspec.Struct, frozen=True, gc=False):
    """Ask the history for an operation; another operation in its place is an error."""

    identity: Identity


class Record(msgspec.Struct, frozen=True, gc=False):
    """Write an update."""

    update: Update
    wait: bool = True


class Run(msgspec.Struct, frozen=True):
    """Call user code with these arguments; an `async def` is awaited where that can be done."""

    func: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    inline: bool = False
    """Whether the code makes durable calls itself, so that it must run on the thread or loop of the plan."""
    timeout: float | None = None
    """Seconds of real time after which the call ends with a TimeoutError. A coroutine is cancelled; a thread cannot be, and goes on."""


class Accept(msgspec.Struct, frozen=True):
    """Ask the service to accept a run, or what is to be enqueued. Nothing is written: the plan records the answer with the operation."""

    identity: Identity
    asked: RunAsked | EnqueueAsked


class Suspend(msgspec.Struct, frozen=True, gc=False):
    """Wait until this operation, or one of the others, changes. The plan has just looked at all of them, at this one last."""

    operation_id: str
    others: tuple[Operation, ...] = ()


class Spawn(msgspec.Struct, frozen=True):
    """Start a plan beside this one; its `Done` carries the `key`."""

    key: int
    plan: Plan[Any]
    again: Callable[[], Plan[Any]] | None = None
    """Makes the plan again, for a driver that runs it from its start when what it waited for has changed."""


class NextDone(msgspec.Struct, frozen=True, gc=False):
    """Wait for the next spawned plan that ends."""


class Done(msgspec.Struct, frozen=True):
    """A spawned plan ended: with a result, or with an exception."""

    key: int
    result: Any = None
    error: Exception | None = None


Effect = Lookup | Record | Run | Accept | Suspend | Spawn | NextDone
Plan = Generator[Effect, Any, T]


def too_late(run: Run, *, cancelled: bool) -> TimeoutError:
    """The error of a body that did not end in time."""
    what = "it was cancelled" if cancelled else "a thread cannot be stopped, so its body may still be running; its result is dropped"
    return TimeoutError(f"The step did not end within {run.timeout:g} s: {what}.")
