"""The values of the reads for people: which executions are wanted (`Browse`), the page that is returned, and counts by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import Kind, Word
from holdfast.model.shown_status import ShownStatus

MAX_SCAN: Final = 100_000
"""One search reads at most this many executions, unless it asks for another bound."""
MAX_COUNTED: Final = 10_000
"""`facets` counts at most this many matches, unless it asks for another bound."""
MAX_HOSTED: Final = 10_000
"""`all_hosted` returns at most this many functions."""
MAX_ATTEMPT_EVENTS: Final = 200
"""`attempts` returns at most this many events."""


class Facet(Word):
    """A field whose values are counted. WORKER and FUNCTION count what runs, by its kind (model.operations.Kind). PIPELINE counts the
    executions of each pipeline, and those that its nodes started."""

    STATUS = "status"
    WORKER = "worker"
    PIPELINE = "pipeline"
    FUNCTION = "function"
    QUEUE = "queue"
    TENANT = "tenant"
    ERROR_CODE = "error_code"
    VERSION = "version"


class Completed(Word):
    """A field whose values can be completed from their first letters."""

    FUNCTION = "function"
    QUEUE = "queue"
    TENANT = "tenant"
    PIPELINE = "pipeline"
    ERROR_CODE = "error_code"


class Browse(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions are wanted. An execution must match every field that is given; of several values of a field, any."""

    statuses: tuple[ShownStatus, ...] = ()
    functions: tuple[str, ...] = ()
    """The names of functions, workers and pipelines that run."""
    pipelines: tuple[str, ...] = ()
    """Executions of these pipelines, and those that their nodes started."""
    queues: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    """An execution without a tenant is one of the tenant `default`."""
    tenant: str | None = None
    """The tenant of the caller. Executions of other tenants never match, even if another field asks for them. None for a caller who may see
    all tenants."""
    kinds: tuple[Kind, ...] = ()
    text: str | None = None
    """An id, or the beginning of an id or of a name."""
    since: int | None = None
    """Started at this time or later, in milliseconds: the time in the id counts, so that a range of time is a range of ids."""
    until: int | None = None
    """Started before this time."""
    roots: bool = False
    """Whether only executions are wanted that no other execution started."""
    beyond: str | None = None
    """Only executions with a smaller id: the last id of the page before, or `searched_to` of a search that stopped."""
    limit: int = 50
    scan: int = MAX_SCAN
    """The most executions that are considered, whether they match or not."""


class BrowsedRow(msgspec.Struct, frozen=True):
    """One execution of a page."""

    header: Execution
    status: ShownStatus
    kind: Kind
    """The kind of its function; `function` if no runner has published that function."""


class Browsed(msgspec.Struct, frozen=True):
    """A page, newest first."""

    rows: tuple[BrowsedRow, ...]
    more: bool
    """Whether the page is full, and there is at least one match after it."""
    searched_to: str | None
    """The search stopped because it had considered as many executions as it may. Every match from this id on was found. A search with this
    id as `beyond` goes on. None if the search reached the end, or if the page is full."""


class Facets(msgspec.Struct, frozen=True):
    """How many of the newest matches have which value of which field."""

    counts: Mapping[Facet, Mapping[str, int]]
    """The values of a field in the order of their counts, the most frequent first. Executions without a value are not counted there."""
    counted: int
    """How many matches were counted."""
    bounded: bool
    """Whether there may be more matches than were counted."""


class RunnerStatus(msgspec.Struct, frozen=True):
    """A runner that has a lease."""

    id: str
    lease_until: int
    code: int | None
    """The schema number of the code that it runs."""
    holds: int
    """How many executions it holds now."""


class SubscriberPosition(msgspec.Struct, frozen=True):
    """How far a subscriber of signals is."""

    name: str
    delivered: int
    """The number of the last signal that it has had."""
    newest: int
    """The number of the last signal that there was."""
    runner: str | None
    """The runner that delivers to it."""
