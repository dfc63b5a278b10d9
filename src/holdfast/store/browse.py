"""The values of the searches that people make: which executions are wanted (`Browse`), the page that is returned, and counts by
field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import Kind, Word
from holdfast.model.shown_status import ShownStatus

MAX_SCAN: Final = 100_000
"""One search considers at most this many executions, unless `Browse.scan` sets another bound."""
MAX_COUNTED: Final = 10_000
"""`facets` counts at most this many matches, unless its caller gives another bound."""
MAX_HOSTED: Final = 10_000
"""`all_hosted` returns at most this many functions."""
MAX_ATTEMPT_EVENTS: Final = 200
"""`attempts` returns at most this many events."""


class Facet(Word):
    """A field whose values are counted. WORKER counts the executions of each worker, FUNCTION those of each function that is neither a
    worker nor a pipeline. PIPELINE counts the executions of each pipeline together with those that its nodes started."""

    STATUS = "status"
    WORKER = "worker"
    PIPELINE = "pipeline"
    FUNCTION = "function"
    QUEUE = "queue"
    TENANT = "tenant"
    ERROR_CODE = "error_code"
    VERSION = "version"


class Completed(Word):
    """A field for which a person types the first letters of a value, and the store returns the values that begin with these letters."""

    FUNCTION = "function"
    QUEUE = "queue"
    TENANT = "tenant"
    PIPELINE = "pipeline"
    ERROR_CODE = "error_code"


class Browse(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions are wanted. An execution must match every field that is given. If a field has several values, the execution must
    match one of them."""

    statuses: tuple[ShownStatus, ...] = ()
    functions: tuple[str, ...] = ()
    """The names of functions, workers or pipelines whose executions are wanted."""
    pipelines: tuple[str, ...] = ()
    """Executions of these pipelines, and executions that their nodes started."""
    queues: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    """Only executions of these tenants. An execution without a tenant belongs to the tenant `default`."""
    tenant: str | None = None
    """The tenant of the caller. Executions of other tenants never match, even if another field asks for them. None for a caller who may see
    all tenants."""
    kinds: tuple[Kind, ...] = ()
    text: str | None = None
    """Only executions whose id, name, or former name (before they were superseded) begins with this text."""
    since: int | None = None
    """Only executions that were started at this time or later, in milliseconds since the epoch. The time is taken from the id."""
    until: int | None = None
    """Only executions that were started before this time, in milliseconds since the epoch. The time is taken from the id."""
    roots: bool = False
    """Whether to leave out executions that another execution invoked."""
    beyond: str | None = None
    """Only executions with a smaller id than this one: give the last id of the page before, or `searched_to` of a search that stopped at
    its bound."""
    limit: int = 50
    scan: int = MAX_SCAN
    """At most this many executions are considered, whether they match or not."""


class BrowsedRow(msgspec.Struct, frozen=True):
    """One execution of a page."""

    header: Execution
    status: ShownStatus
    kind: Kind
    """The kind of its function; `function` if no runner has published that function and version."""


class Browsed(msgspec.Struct, frozen=True):
    """One page of a search, the newest execution first."""

    rows: tuple[BrowsedRow, ...]
    more: bool
    """Whether there is at least one more match after this page. If so, the page is full."""
    searched_to: str | None
    """Given if the search stopped because it had considered `Browse.scan` executions. All matches with this id or a larger id have been
    found. To continue, search again with this id as `beyond`. None if the search has considered all executions, or if it stopped because
    the page is full."""


class Facets(msgspec.Struct, frozen=True):
    """How many of the newest matches have each value of each field."""

    counts: Mapping[Facet, Mapping[str, int]]
    """For each field, its values with their counts, the most frequent value first. An execution without a value in a field is not counted
    there."""
    counted: int
    """How many matches were counted."""
    bounded: bool
    """Whether the search stopped at a bound, so that there may be more matches than were counted."""


class RunnerStatus(msgspec.Struct, frozen=True):
    """A runner that is registered in the store."""

    id: str
    lease_until: int
    code: int | None
    """The schema number of the code that the runner runs; None for code of the oldest schema, which does not tell it."""
    holds: int
    """How many executions this runner has claimed and not given back."""


class SubscriberPosition(msgspec.Struct, frozen=True):
    """One subscriber: which signal was delivered to it last, which signal is the newest, and which runner delivers to it."""

    name: str
    delivered: int
    """The number of the last signal that was delivered to it."""
    newest: int
    """The number of the newest signal that the store has ever written."""
    runner: str | None
    """The runner that delivers to it; None if none does."""
