"""The port through which a durable function runs workers: `durable` asks, `engine` passes the question on, `workers` answers."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Order, Queued
from holdfast.model.ports import Port


class RunAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a durable function asks for with `context.run`. Who pays for it and who may see it follows from the execution."""

    worker_id: str
    version: str | None = None
    inputs: dict[str, Any]
    constraints: dict[str, Any] = {}


class EnqueueAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a durable function asks for with `context.enqueue`."""

    target: str
    """A function, a worker or a pipeline, by its name."""
    version: str | None = None
    input: Any = None
    queued: Queued


class OccurrenceAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule asks for when an occurrence of a worker is due."""

    worker_id: str
    version: str | None
    inputs: dict[str, Any]
    tenant: str
    requested_by: str
    """The operator who asked for the occurrence or defined the schedule, else the schedule. It is known so that no person decides about
    their own request."""
    key: str
    """The idempotency key: the same for one occurrence in every process."""


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted run of an occurrence: what its start is made of."""

    order: Order
    name: str
    """The name of the execution."""
    same: str


class Acceptor(Protocol):
    """The service that accepts runs of workers."""

    async def __call__(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """The order of the run that an execution asks for at one of its operations, or the refusal. Starts nothing."""
        ...


class RunPort(Port, Protocol):
    """A port through which a handler can run workers. Only Holdfast's engine has it, in its own process."""

    async def accept(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept a run, or what is to be enqueued, from the engine's loop. Raises RunUnavailable where no workers are served."""
        ...

    def accept_blocking(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept a run or an enqueue, from a handler's thread."""
        ...
