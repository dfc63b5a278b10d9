"""Enqueues: checks what a caller asks of a queue, and makes the start with which a parked execution is enqueued again (a redrive)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Final, TypeVar

import msgspec

from holdfast.model.admission import Enqueue, Same
from holdfast.model.charges import Charge
from holdfast.model.enqueues import ALLOWED_SECONDS, is_time
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, GraphText, Terms
from holdfast.model.history import KIND
from holdfast.model.ids import checked_key
from holdfast.model.life import new_execution
from holdfast.model.operations import Kind
from holdfast.model.places import Place, checked_queue, key_of
from holdfast.model.summary import begun, pipeline_of
from holdfast.model.verbs import Start
from holdfast.store.seam import ExecutionStore, QueueStore

BULK: Final = 1000
"""One commit enqueues at most this many executions."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One item of `Engine.enqueue_many`: an execution that is enqueued together with others."""

    input: str
    name: str | None = None
    kind: Kind = Kind.FUNCTION
    terms: Terms | None = None
    charges: tuple[Charge, ...] = ()
    identity: str | None = None
    """This text is compared instead of the input, to find out whether two enqueues of one name are the same. None: the input is
    compared."""
    graph: GraphText | None = None
    enqueue: Enqueue | None = None
    """How this item is enqueued; None: in the way that the caller gives for all items."""

    def start(self, id: str, function: str, version: str, terms: Terms, tenant: str | None, now: int, asked: Enqueue) -> Start:
        """The write that enqueues this item. `terms` and `asked` are used if the item has none of its own. Raises an error if the item can
        never be enqueued."""
        who = {"tenant": tenant, "same": self.identity}
        header = new_execution(id, checked_key(self.name), function, version, payload=self.input, now=now, terms=self.terms or terms, **who)
        enqueue = self.enqueue or asked
        enqueue.lane(header)  # raises for a key that no lane can have
        return Start(header, self.input, None, self.charges, self.identity, self.kind, graph=self.graph, enqueue=enqueue)


E = TypeVar("E", bound=HoldfastError)


def of_input(error: E, index: int) -> E:
    """Put the index of an input before the message of its error, and return the error."""
    error.args = (f"inputs[{index}]: {error}",)
    return error


@contextlib.contextmanager
def indexed(made: Sized) -> Iterator[None]:
    """A `with` block that handles many inputs in their order and appends one result for each to `made`. If the block raises an error of
    Holdfast, the error gets the index of the input at which it was raised."""
    try:
        yield
    except HoldfastError as wrong:
        raise of_input(wrong, len(made)) from None


class NewQueues:
    """Notices when an enqueue names a queue that the store does not have: the enqueue makes a new queue without limits, and its name may be
    misspelled. Each name is looked up only once."""

    def __init__(self, store: QueueStore, known: Iterable[str]) -> None:
        self._store, self._known = store, set(known)
        self.warn: Callable[[str], None] | None = None
        """Called with the name of a queue that the store does not have. None: queues are not looked up."""

    def check(self, queue: str) -> None:
        """Warn if the store does not have this queue. There is at most one warning for each name."""
        if self.warn is None or queue in self._known:
            return
        is_new = self._store.queue(queue) is None
        self._known.add(queue)
        if is_new:
            self.warn(queue)


Redrive = Callable[[ExecutionStore, Execution, str, int], Start]
"""Makes the start that enqueues a parked execution again. It is called with the store, the parked execution, the id of the new execution,
and the time."""


def enqueue_of(
    queue: str,
    *,
    key: str | None = None,
    delay: float = 0.0,
    ttl: float | None = None,
    head_start: float = 0.0,
    units: int | None = None,
    same: str = "existing",
) -> Enqueue:
    """Check what a caller asks of a queue, and make an Enqueue of it. Times are in seconds. `key`: the key of its lane; None: no key.
    `ttl`: how long it may wait; None: as the queue's settings say. `head_start`: its lane treats it as enqueued this much earlier. `units`:
    the tokens that it is estimated to use; None: 0. `same`: what happens if its name is taken ("existing", "replace" or "refuse"). Raises
    InvalidParameter for a wrong value. The store checks later whether the queue's settings allow it."""
    if same not in [member.value for member in Same]:
        told = ", ".join(repr(member.value) for member in Same)
        raise InvalidParameter(f"`same` is {same!r:.50}; it must be one of {told}.")
    if units is not None and (type(units) is not int or units < 0):
        raise InvalidParameter(f"`units` is {units!r:.50}; it must be a whole number, 0 or more.")
    return Enqueue(
        queue=checked_queue(queue),
        key=key,
        delay_ms=milliseconds(delay, "delay"),
        ttl_ms=None if ttl is None else max(1, milliseconds(ttl, "ttl")),
        head_start_ms=milliseconds(head_start, "head_start"),
        units=units or 0,
        same=Same(same),
    )


def milliseconds(seconds: float, what: str) -> int:
    """The milliseconds of a delay, a time to live or a head start. Raises InvalidParameter if the number of seconds is out of range; `what`
    is its name in the message."""
    if not is_time(seconds):
        raise InvalidParameter(f"{what} is {seconds!r:.50}; {ALLOWED_SECONDS}.")
    return round(seconds * 1000)


def same_place(place: Place) -> Enqueue:
    """An Enqueue for a new execution that shall wait beside an earlier one, whose place this is: in the same queue, for the same tenant,
    key and user. Only the version of its lane may differ."""
    return Enqueue(queue=place.queue, key=key_of(place.lane), beside=place.lane, units=place.units, money=place.money)


def redriven(store: ExecutionStore, header: Execution, identity: str, now: int, *, payload: str | None = None) -> Start:
    """The start that enqueues a parked execution again, under its name. The new execution has the id `identity`; the parked one is
    superseded. Raises InvalidParameter if the execution is not parked, or was started again already.

    `payload`: the new input; None: the input of the parked execution. A later start of the name counts as the same start if it equals the
    start of the parked execution.
    """
    place = header.place
    if place is None or not header.parked or header.status is ExecutionStatus.RUNNING or header.superseded_by is not None:
        raise InvalidParameter(
            f"Execution {header.name!r} is not parked: only an execution that came from a queue, failed, and was not started again since "
            "can be redriven."
        )
    first = store.history(header.id, 0, 1)[0].event
    text = payload if payload is not None else first.payload or "null"
    who = {"tenant": header.tenant, "trace": header.trace}
    made = new_execution(identity, None, header.function, header.version, payload=text, now=now, terms=header.terms, **who)
    made = msgspec.structs.replace(made, name=header.name, input_hash=header.input_hash, summary=begun(pipeline_of(header.summary)))
    graph = None if header.graph is None else store.graph(header.graph)
    return Start(
        made,
        text,
        kind=Kind((first.detail or {}).get(KIND, Kind.FUNCTION.value)),
        again=True,
        graph=None if graph is None or header.graph is None else GraphText(header.graph, graph),
        enqueue=same_place(place),
        keeps_hash=True,
    )
