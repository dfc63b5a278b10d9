"""The values that go in and out of a store: targets, batches, histories, copies and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Change, Execution, ExecutionStatus, Terms
from holdfast.model.history import Event
from holdfast.model.operations import Kind, Operation
from holdfast.model.places import Only
from holdfast.model.verbs import Answer


class Target(msgspec.Struct, frozen=True):
    """A function and version that a runner hosts."""

    function: str
    version: str
    only: Only | None = None
    """The executions of the function that the runner takes; None for all. It is the same for all targets of a runner."""


class Hosted(msgspec.Struct, frozen=True):
    """A function as every process of the store knows it: the terms that its executions get."""

    function: str
    version: str
    terms: Terms
    kind: Kind = Kind.FUNCTION
    """Only a plain function can be invoked by its name."""


class Committed(NamedTuple):
    """The result of a batch: an answer or an error for each entry, in order, and the executions that follow-up writes changed."""

    answers: Sequence[Answer | HoldfastError]
    followed: Sequence[Execution] = ()
    signalled: bool = False
    """Whether the batch added signals for subscribers."""
    changes: Sequence[Change] = ()
    """What the follow-up writes changed, one for each of `followed`. A live parent learns from it how its operation ended."""
    opens_at: int | None = None
    """After an admission: the time at which the first of the lanes opens that the admission has closed."""


class HistoryEntry(msgspec.Struct, frozen=True):
    """One event, with the operation that the event is about."""

    event: Event
    operation: Operation | None


class Snapshot(msgspec.Struct, frozen=True):
    """All of one execution at one moment."""

    header: Execution
    operations: tuple[Operation, ...]
    """In the order they began."""
    events: tuple[Event, ...]
    """In order. The terminal event of a closing execution is among them, though `history` does not show it yet."""
    graph: str | None = None
    """The text of the graph that the header names. A copy without it names no graph where it is adopted."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions to list, newest first unless `oldest_first`."""

    function: str | None = None
    version: str | None = None
    name: str | None = None
    """The execution that has this name, and executions that had it before they were superseded."""
    parent: str | None = None
    """The id of the execution that invoked them."""
    tenant: str | None = None
    queue: str | None = None
    statuses: tuple[ExecutionStatus, ...] = ()
    started_after: int | None = None
    started_before: int | None = None
    oldest_first: bool = False
    beyond: str | None = None
    """The id of the last execution of the page before. Pages neither repeat nor skip executions that existed when the first was read."""
    limit: int = 100
