"""The values that a store accepts and returns: targets, batches, histories, copies and filters."""

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
    """Which executions of the function the runner takes; None for all. All targets of one runner have the same `only`."""


class Hosted(msgspec.Struct, frozen=True):
    """A function that a process has published, with the terms that its executions get."""

    function: str
    version: str
    terms: Terms
    kind: Kind = Kind.FUNCTION
    """Only a function of kind FUNCTION can be started or invoked by its name alone; workers and pipelines need an accepted order."""


class Committed(NamedTuple):
    """The result of a batch: an answer or an error for each entry, in the order of the entries; and the other executions that the batch
    changed (`followed`). An admission has one answer for each execution that it claimed."""

    answers: Sequence[Answer | HoldfastError]
    followed: Sequence[Execution] = ()
    signalled: bool = False
    """Whether the batch added signals for subscribers."""
    changes: Sequence[Change] = ()
    """The changes of the executions in `followed`, in the same order. From these the engine tells a live invocation how its operation
    ended."""
    opens_at: int | None = None
    """For a batch with an admission: the earliest time at which a lane opens again that the admission closed for a time. None if it closed
    no lane."""


class HistoryEntry(msgspec.Struct, frozen=True):
    """One event, with the operation that the event is about. `operation` is None if the event is about the execution itself."""

    event: Event
    operation: Operation | None


class Snapshot(msgspec.Struct, frozen=True):
    """All rows of one execution, read at one moment."""

    header: Execution
    operations: tuple[Operation, ...]
    """In the order they began."""
    events: tuple[Event, ...]
    """In the order of their numbers. They include the terminal event of a closing execution, which `history` does not show yet."""
    graph: str | None = None
    """The text of the graph that the header names. None if the copy brings no text: the store that adopts the copy then writes no graph."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions to list, newest first unless `oldest_first`."""

    function: str | None = None
    version: str | None = None
    name: str | None = None
    """Only the execution that has this name, and executions that had it before they were superseded."""
    parent: str | None = None
    """The id of an execution: only executions that it invoked."""
    tenant: str | None = None
    queue: str | None = None
    statuses: tuple[ExecutionStatus, ...] = ()
    started_after: int | None = None
    started_before: int | None = None
    oldest_first: bool = False
    beyond: str | None = None
    """The id of the last execution of the page before; None for the first page. If executions are added or removed between the reads of two
    pages, the second page still begins right after this id."""
    limit: int = 100
