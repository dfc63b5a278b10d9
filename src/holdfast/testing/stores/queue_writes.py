"""Helpers for the tests of queues: they enqueue, admit and settle executions only through the methods of `Store`, which every store has,
and count the lanes from the executions."""

import itertools
from collections import Counter
from collections.abc import Iterable
from random import Random

import msgspec

from holdfast.model.admission import Enqueue, Same, holds, waits
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Claimant, Execution, Outcome, OutcomeStatus
from holdfast.model.ids import Ids
from holdfast.model.operations import Update
from holdfast.model.places import path
from holdfast.model.queues import checked_declaration
from holdfast.model.rates import Rate
from holdfast.model.verbs import Start, Started
from holdfast.store.seam import Committed, Filter, Store, Target
from holdfast.testing.stores.writes import ORDER, T0, after, answers, settled, wanted, written

MAIL = "mail"
"""The queue of most tests."""
_PAGE = 1000
_ids = Ids(Random(16))
_invocations = itertools.count(1)


def declare(store: Store, queue: str = MAIL, **declared: object) -> None:
    """Declare a queue with the settings `declared`, as the code of an author declares it."""
    store.declare([checked_declaration(queue, declared)])


def claimant(runner: str = "here") -> Claimant:
    """A runner as claimant, with a new invocation id at each call."""
    return Claimant(runner, f"{runner}-{next(_invocations)}")


def queued(
    name: str,
    text: str = "{}",
    /,
    *,
    queue: str = MAIL,
    now: int = T0,
    by: Claimant | None = None,
    again: bool = False,
    key: str | None = None,
    delay_ms: int = 0,
    ttl_ms: int | None = None,
    head_start_ms: int = 0,
    units: int = 0,
    same: Same = Same.EXISTING,
    rates: tuple[Rate, ...] = (),
    user: str | None = None,
    **set_to: object,
) -> Start:
    """A start through a queue. `by` claims the execution in the same write, if it can be admitted at once. `set_to` replaces fields of its
    header. Each call makes a greater id, so that executions stand in a lane in the order of the calls."""
    start = wanted(name, text, **{"id": _ids(now), "started_at": now} | set_to)
    times = {"delay_ms": delay_ms, "ttl_ms": ttl_ms, "head_start_ms": head_start_ms}
    how = Enqueue(queue=queue, key=key, **times, units=units, same=same, rates=rates, user=user)  # type: ignore[arg-type]
    return msgspec.structs.replace(start, enqueue=how, by=by, again=again)


def enqueued(store: Store, *starts: Start, now: int = T0) -> list[Execution]:
    """Write these starts in one batch, and return the headers of their executions. If the store refuses a start, its error is raised."""
    made = []
    for answer in answers(store, *starts, now=now):
        if isinstance(answer, HoldfastError):
            raise answer
        assert isinstance(answer, Started)
        made.append(answer.header)
    return made


def several(store: Store, *names: str, now: int = T0, **how: object) -> list[Execution]:
    """Enqueue executions of these names in one batch, in this order. `how` are arguments of `queued`."""
    return enqueued(store, *(queued(name, now=now, **how) for name in names), now=now)  # type: ignore[arg-type]


def committed(store: Store, count: int, now: int = T0, targets: Iterable[Target] = ORDER, runner: str = "here") -> Committed:
    """Let the store admit up to `count` executions for `runner`, and return the whole result."""
    return store.admit(tuple(targets), [claimant(runner) for _ in range(count)], now)


def admitted(store: Store, count: int, now: int = T0, targets: Iterable[Target] = ORDER, runner: str = "here") -> list[Execution]:
    """Let the store admit up to `count` executions for `runner`, and return their headers."""
    return [header for header in committed(store, count, now, targets, runner).answers if isinstance(header, Execution)]


def admitted_names(store: Store, count: int, now: int = T0) -> list[str]:
    """Let the store admit up to `count` executions for the runner `here`, and return their names."""
    return [header.name for header in admitted(store, count, now)]


def running(store: Store, name: str, *updates: Update, now: int = T0, **how: object) -> Execution:
    """Enqueue an execution that is admitted and claimed at once, write these updates, and return its header. The test fails if there is no
    room in the queue."""
    (header,) = enqueued(store, queued(name, now=now, by=claimant(), **how), now=now)  # type: ignore[arg-type]
    assert holds(header), "there was no room"
    return after(store, header, *updates, now=now) if updates else header


def ended(store: Store, header: Execution, status: OutcomeStatus = OutcomeStatus.SUCCEEDED, now: int = T0, **told: object) -> Execution:
    """End the invocation of an execution with this status, and return the header after that. `told` are other members of the outcome."""
    return written(store, settled(header, Outcome(status, **told)), now)  # type: ignore[arg-type]


def counted(store: Store, queue: str = MAIL) -> dict[str, tuple[int, int]]:
    """The slots that are held and the executions that wait in each lane of a queue, by its key, as the lanes have them. Lanes with neither
    are left out."""
    found: dict[str, tuple[int, int]] = {}
    beyond = ""
    while page := store.lanes(queue, beyond, _PAGE):
        found |= {lane.key: (lane.held, lane.waiting) for lane in page if lane.held or lane.waiting}
        beyond = page[-1].key
    return found


def recounted(store: Store, queue: str = MAIL) -> dict[str, tuple[int, int]]:
    """The slots that are held and the executions that wait in each lane of a queue, by its key, counted from the headers of the executions.
    Lanes with neither are left out."""
    held, waiting = Counter[str](), Counter[str]()
    beyond: str | None = None
    while page := store.list(Filter(queue=queue, limit=_PAGE, beyond=beyond)):
        for header in page:
            assert header.place is not None
            for key in path(header.place.lane):
                held[key] += holds(header)
                waiting[key] += waits(header)
        beyond = page[-1].id
    return {key: (held[key], waiting[key]) for key in held if held[key] or waiting[key]}


def check_counts(store: Store) -> None:
    """Fail the test if a lane's stored counts differ from a new count of its executions."""
    for row in store.queues():
        assert counted(store, row.name) == recounted(store, row.name), f"the lanes of {row.name} are not what a recount finds"
