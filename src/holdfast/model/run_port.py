"""The port through which a durable function runs workers: `durable` asks for a run, `engine` passes the request on, and `workers` accepts
or refuses it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Order, Queued
from holdfast.model.ports import Port


class RunAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a durable function asks for with `context.run`. The tenant and the budgets of the run come from the execution that asks."""

    worker_id: str
    version: str | None = None
    """The worker's version; None: the version that the service registered last, also if another one has a higher number."""
    inputs: dict[str, Any]
    constraints: dict[str, Any] = {}
    """Limits for this run. They may only make the limits of the worker's contract stricter."""


class EnqueueAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a durable function asks for with `context.enqueue`."""

    target: str
    """A function, a worker or a pipeline, by its name."""
    version: str | None = None
    input: Any = None
    queued: Queued


class OccurrenceAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule asks for when an occurrence of a worker or a pipeline is due."""

    worker_id: str
    version: str | None
    inputs: dict[str, Any]
    tenant: str
    requested_by: str
    """Who counts as the requester: the operator who asked for this occurrence; else the operator who added or changed the schedule last;
    else the schedule itself. Approvals need it: no person may decide about their own request."""
    key: str
    """The idempotency key of the run. Every process makes the same key for the same occurrence."""


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted run of an occurrence. The start of its execution is made from this."""

    order: Order
    name: str
    """The name of the execution."""
    same: str
    """The text by which a second start of the same name is recognised (`starts.Start.same`)."""


class Acceptor(Protocol):
    """The service that accepts or refuses runs of workers, and enqueues."""

    async def __call__(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept or refuse what the execution `parent` asks for at its operation `operation_id`. Returns the order of the new execution, or
        a Failure if the request is refused. Starts nothing."""
        ...


class RunPort(Port, Protocol):
    """A port through which a handler can run workers. Only Holdfast's engine has it, in its own process."""

    async def accept(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Ask the service to accept a run or an enqueue. `parent` is the execution that asks, `operation_id` the operation in which it
        asks. This form is for code on the engine's event loop. Returns the order, or a Failure if the request is refused. Raises
        RunUnavailable if a run is asked for and the engine serves no workers."""
        ...

    def accept_blocking(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """For a handler that runs in a thread: do the same as `accept`, but block until the answer is there. Returns the order, or a
        Failure if the request is refused. Raises RunUnavailable in the same case as `accept`."""
        ...
