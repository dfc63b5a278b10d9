"""Plans: what an operation does, written once for both colours.

A plan is a plain generator. It yields what it needs, the driver serves it, and the answer comes back from the `yield`:

    Look      what does the history hold at this place?          → Operation | None
    Record    write an update; `wait` for the disk, or ride with the next write
    Run       call user code                                     → its result, or its exception is thrown in
    Suspend   go on when this operation has changed
    Spawn     begin another plan beside this one
    NextDone  wait until one of those has ended                  → Done

blocking.py drives plans of `def` handlers, awaiting.py those of `async def` ones. A plan knows neither threads nor loops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.model.operations import Operation, Update

T = TypeVar("T")


class Look(msgspec.Struct, frozen=True, gc=False):
    """Ask the history for an operation; another one at its place is an error."""

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
    """It makes durable calls itself, so it must run where the plan runs."""
    timeout: float | None = None
    """Seconds of real time after which a TimeoutError is thrown in. A coroutine is cancelled then; a thread cannot be, and goes on."""


class Suspend(msgspec.Struct, frozen=True, gc=False):
    """Nothing can be done until this operation changes, or one of the others does; all of them have just been looked at, this one last."""

    operation_id: str
    others: tuple[Operation, ...] = ()


class Spawn(msgspec.Struct, frozen=True):
    """Begin a plan beside this one; `key` names it when it is done."""

    key: int
    plan: Plan[Any]
    again: Callable[[], Plan[Any]] | None = None
    """The plan from its beginning, for a driver that runs it again once what it waited for has changed."""


class NextDone(msgspec.Struct, frozen=True, gc=False):
    """Wait for the next spawned plan that ends."""


class Done(msgspec.Struct, frozen=True):
    """A spawned plan ended: with a result, or with an exception."""

    key: int
    result: Any = None
    error: Exception | None = None


Effect = Look | Record | Run | Suspend | Spawn | NextDone
Plan = Generator[Effect, Any, T]


def too_late(run: Run, *, cancelled: bool) -> TimeoutError:
    """What a body that did not end in its time comes to."""
    what = "it was cancelled" if cancelled else "a thread cannot be stopped, so its body may still be running; its result is dropped"
    return TimeoutError(f"The step did not end within {run.timeout:g} s: {what}.")
