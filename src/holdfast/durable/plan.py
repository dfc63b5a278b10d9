"""Plans: what an operation does, written once for `def` and `async def` handlers.

A plan is a plain generator. It yields a request, a driver carries it out, and the `yield` returns the answer:

    Lookup    ask the history for an operation                   → Operation | None
    Record    write an update: `wait` until it is on disk, or leave it to the next write
    Run       call user code                                     → its result, or its exception is thrown into the plan
    Accept    ask the worker service to accept a run or an enqueue   → Order | Failure
    Suspend   wait until an operation has changed
    Spawn     begin another plan, which runs concurrently
    NextDone  wait until one of the spawned plans has ended      → Done

blocking_driver.py drives the plans of `def` handlers, async_driver.py those of `async def` handlers. A plan uses neither threads nor loops.
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
    """Ask the history for the operation with this identity. The answer is None if no recorded operation has the same id. If one has the
    same id, but another type, sub-type, name or parent, the driver raises NonDeterministicExecutionError."""

    identity: Identity


class Record(msgspec.Struct, frozen=True, gc=False):
    """Write an update. With `wait` the plan continues when the update is on disk. Without `wait` the plan continues at once. Then the
    update is written together with the next write, or alone if no write follows within some milliseconds."""

    update: Update
    wait: bool = True


class Run(msgspec.Struct, frozen=True):
    """Call user code with these arguments. If it returns a coroutine, the driver runs the coroutine to its end."""

    func: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    inline: bool = False
    """Whether the code makes durable calls itself. If so, it must run on the thread or the event loop on which the plan runs."""
    timeout: float | None = None
    """After this many seconds of real time the call ends with a TimeoutError; None means no limit. The async driver cancels an `async def`.
    Any other code runs in a thread, which cannot be stopped: it continues after the TimeoutError."""


class Accept(msgspec.Struct, frozen=True):
    """Ask the worker service to accept a run or an enqueue, for the call with this identity. This request writes nothing: the plan records
    the answer, together with the operation."""

    identity: Identity
    asked: RunAsked | EnqueueAsked


class Suspend(msgspec.Struct, frozen=True, gc=False):
    """Wait until the operation `operation_id`, or one of `others`, changes. The plan has just looked up all of these operations,
    `operation_id` as the last one."""

    operation_id: str
    others: tuple[Operation, ...] = ()


class Spawn(msgspec.Struct, frozen=True):
    """Start `plan`, which runs concurrently with the plan that yields this. The `Done` of the started plan has the same `key`."""

    key: int
    plan: Plan[Any]
    again: Callable[[], Plan[Any]] | None = None
    """Makes a new plan of the same branch, for a driver that runs the branch again from its start when an operation that it waits for has
    changed. None if the branch cannot run again."""


class NextDone(msgspec.Struct, frozen=True, gc=False):
    """Wait until one of the spawned plans has ended; the answer is its `Done`."""


class Done(msgspec.Struct, frozen=True):
    """The end of a spawned plan: `result` is what the plan returned, or `error` the error that it raised (None: it raised none). `key` is
    the key of its `Spawn`."""

    key: int
    result: Any = None
    error: Exception | None = None


PlanEffect = Lookup | Record | Run | Accept | Suspend | Spawn | NextDone
Plan = Generator[PlanEffect, Any, T]


def too_late(run: Run, *, cancelled: bool) -> TimeoutError:
    """The error for a step's body that did not end within `run.timeout` seconds. `cancelled`: whether the driver cancelled the body. If
    not, the body may still run in its thread, and the message says so."""
    what = "it was cancelled" if cancelled else "a thread cannot be stopped, so its body may still be running; its result is dropped"
    return TimeoutError(f"The step did not end within {run.timeout:g} s: {what}.")
