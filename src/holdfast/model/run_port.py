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
    """The worker's version; None: the newest."""
    inputs: dict[str, Any]
    constraints: dict[str, Any] = {}
    """Limits for this run that are stricter than those of the worker's contract."""


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
    """The operator who asked for the occurrence or defined the schedule; if none did, the schedule. Approvals need it: no person may decide
    about their own request."""
    key: str
    """The idempotency key. One occurrence has the same key in every process."""


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted run of an occurrence: from this its start is made."""

    order: Order
    name: str
    """The name of the execution."""
    same: str
    """As in `starts.Start`."""


class Acceptor(Protocol):
    """The service that accepts runs of workers."""

    async def __call__(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """The order of the run that an execution asks for at one of its operations; or a Failure, if the request is refused. Starts
        nothing."""
        ...


class RunPort(Port, Protocol):
    """A port through which a handler can run workers. Only Holdfast's engine has it, in its own process."""

    async def accept(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept a run or an enqueue: for code on the engine's event loop. Returns the order, or a Failure if the request is refused.
        Raises RunUnavailable if the engine serves no workers."""
        ...

    def accept_blocking(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """As `accept`, for a handler that runs in a thread. Blocks until the answer is there."""
        ...
