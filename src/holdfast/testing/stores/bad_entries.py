"""Invalid entries of a batch: each has a wrong value in one field. Only a bug can make them. A store must refuse each one alone, or accept
it if the value is allowed in this field.

`VALUES` are the wrong values. The functions in `FIELDS` make an entry for an execution with one of the values in one field. That execution
is live and has an open callback `c`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NoReturn

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.errors import DiskFull, HoldfastError, StoreBroken, StoreBusy
from holdfast.model.execution import Birth, GraphText, Outcome, OutcomeStatus
from holdfast.model.execution import Execution as Header
from holdfast.model.ids import Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Failure, Type, Update
from holdfast.model.outside import Answering, Fire, Heartbeat, Release, Stop
from holdfast.model.verbs import Checkpoint, Claim, Settle, Start, Started, Write
from holdfast.store.seam import Store
from holdfast.testing.stores.writes import answers, callback, checkpoint, id_at, position, step, wanted


class Texts(str):
    """A subclass of str without changes."""


class Lying(str):
    """A subclass of str in which some methods return wrong values or raise an error."""

    def __contains__(self, _: object) -> bool:
        return False

    def replace(self, *_: object) -> str:
        return self

    def __str__(self) -> str:
        raise ZeroDivisionError


class Colour(Enum):
    """An enum that the store does not know."""

    RED = "red"


class Hostile:
    """An object whose special methods, such as `__str__` and `__eq__`, raise the error that it was made with."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def _raise(self, *_: object) -> NoReturn:
        raise self._error

    __str__ = __repr__ = __eq__ = __hash__ = __len__ = __bool__ = __lt__ = __iter__ = __add__ = _raise


VALUES: Final[Mapping[str, object]] = {
    "none": None,
    "bool": True,
    "int": 5,
    "negative": -1,
    "beyond 64 bits": 2**63,
    "below 64 bits": -(2**70),
    "too many digits": 10**5000,
    "fraction": 1.5,
    "not a number": float("nan"),
    "infinite": float("inf"),
    "empty": "",
    "quotes": 'a"b\\c{},NULL,"',
    "numbers": "1,2",
    "nul": "a\0b",
    "surrogate": "a\ud800",
    "long": "x" * 300_000,
    "class of text": Texts("text"),
    "enum": Colour.RED,
    "bytes": b"bytes",
    "list": [1],
    "dict": {"a": 1},
    "object": object(),
    "hostile": Hostile(ZeroDivisionError),
    "endless": Hostile(RecursionError),
    "greedy": Hostile(MemoryError),
    "of ours": Hostile(HoldfastError),
    "as a disk": Hostile(DiskFull),
    "as a lock": Hostile(StoreBusy),
    "as a store": Hostile(StoreBroken),
    "as a socket": Hostile(ConnectionResetError),
    "lying": Lying('a","b\\'),
}

Make = Callable[[Header, Any], Write]
"""Makes an entry for this execution, with this wrong value in it."""


def _updated(**set_to: Any) -> Update:
    return Update(**({"id": "u", "type": Type.STEP, "action": Action.SUCCEED} | set_to))


def _update(member: str, **set_to: Any) -> Make:
    return lambda header, wrong: checkpoint(header, _updated(**set_to | {member: wrong}))


def _header(member: str) -> Make:
    return lambda _, wrong: wanted(f"new-{id_at(0)}", "{}", **{member: wrong})


def _graph(make: Callable[[Any], Any]) -> Make:
    """A function that makes a start with an invalid graph. `make` makes the graph from the wrong value."""
    return lambda _, wrong: msgspec.structs.replace(wanted(f"new-{id_at(0)}"), graph=make(wrong))


def _child(member: str) -> Make:
    """A function that makes a checkpoint that starts a child. It puts a wrong value into this member of the child's header."""

    def make(header: Header, wrong: Any) -> Write:
        start = wanted(f"child-{id_at(0)}", "{}", parent=header.id, parent_operation="u", **{member: wrong})
        update = _updated(type=Type.CHAINED_INVOKE, action=Action.START, function_name="order", payload="{}")
        return Checkpoint(position(header), (update,), None, {"u": Birth(start.header, "{}")})

    return make


def _at(member: str) -> Make:
    return lambda header, wrong: Checkpoint(position(header)._replace(**{member: wrong}), (step("u"),))


def _charge(member: str) -> Make:
    charge: dict[str, Any] = {"key": "k", "amount": 1, "limit": 10**6, "until": 10**14}
    return lambda header, wrong: Checkpoint(position(header), (step("u"),), charges=(Charge(**(charge | {member: wrong})),))


def _settle(*set_to: str) -> Callable[[Header, Any], Settle]:
    """A function that makes the end of an invocation with a wrong value in these members."""

    def make(header: Header, wrong: Any) -> Settle:
        end: dict[str, Any] = {"execution": header.id, "epoch": header.epoch, "invocation": header.invocation, "seen": header.revision}
        ends: dict[str, Any] = {"status": OutcomeStatus.SUCCEEDED, "result": "1", "error": None} | {
            name: wrong for name in set_to if name in ("status", "result", "error", "again_seconds")
        }
        if "error" in set_to:
            ends |= {"status": OutcomeStatus.FAILED, "result": None}
        if "again_seconds" in set_to:
            ends |= {"status": OutcomeStatus.CRASHED, "result": None}
        return Settle(**(end | {name: wrong for name in set_to if name in end} | {"outcome": Outcome(**ends)}))

    return make


_WAIT: Final = {"type": Type.WAIT, "action": Action.START, "wait_seconds": 1}
_CALLBACK: Final = {"type": Type.CALLBACK, "action": Action.START}
_RETRY: Final = {"action": Action.RETRY, "delay_seconds": 1}
_INVOKE: Final = {"type": Type.CHAINED_INVOKE, "action": Action.START, "function_name": "unknown", "payload": "{}"}
_TEXTS: Final = ("id", "name", "sub_type", "parent_id", "payload", "type", "action", "replay_children")
_HEADER: Final = tuple(member for member in Header.__struct_fields__ if member not in ("id", "name"))

FIELDS: Final[Mapping[str, Mapping[str, Make]]] = {
    "updates": {member: _update(member) for member in _TEXTS}
    | {
        "error": _update("error", action=Action.FAIL),
        "message": lambda header, wrong: checkpoint(header, _updated(action=Action.FAIL, error=Failure(wrong, wrong, wrong, wrong))),
        "delay": _update("delay_seconds", **_RETRY),
        "wait": _update("wait_seconds", **_WAIT),
        "timeout": _update("timeout_seconds", **_CALLBACK),
        "heartbeat": _update("heartbeat_seconds", **_CALLBACK),
        "function": _update("function_name", **_INVOKE),
        "tenant": _update("tenant_id", **_INVOKE),
    },
    "checkpoints": {member: _at(member) for member in Position._fields}
    | {
        "updates": lambda header, wrong: Checkpoint(position(header), wrong),
        "update": lambda header, wrong: Checkpoint(position(header), (wrong,)),
        "client": lambda header, wrong: Checkpoint(position(header), (step("u"),), wrong),
        "children": lambda header, wrong: Checkpoint(position(header), (_updated(**_INVOKE),), None, {"u": wrong}),
        "charges": lambda header, wrong: Checkpoint(position(header), (step("u"),), charges=wrong),
    }
    | {f"charge's {member}": _charge(member) for member in ("key", "amount", "limit", "until", "reserved")},
    "starts": {member: _header(member) for member in ("id", "name", *_HEADER)}
    | {"input": lambda _, wrong: Start(wanted(f"new-{id_at(0)}").header, wrong)}
    | {"graph": _graph(lambda wrong: wrong), "graph's id": _graph(lambda wrong: GraphText(wrong, "{}"))}
    | {"graph's text": _graph(lambda wrong: GraphText("0" * 64, wrong))},
    "children": {member: _child(member) for member in ("id", "name", "function", "terms", "tenant", "started_at", "cascade", "deaths")},
    "ends": {member: _settle(member) for member in ("execution", "epoch", "invocation", "seen", "status", "result", "error")}
    | {"again": _settle("again_seconds"), "outcome": lambda header, wrong: msgspec.structs.replace(_settle()(header, 0), outcome=wrong)},
    "answers": {
        "operation": lambda header, wrong: Answering(header.id, wrong, "1"),
        "result": lambda header, wrong: Answering(header.id, "c", wrong),
        "error": lambda header, wrong: Answering(header.id, "c", None, wrong),
        "claimant": lambda header, wrong: Answering(header.id, "c", "1", None, wrong),
        "heartbeat": lambda header, wrong: Heartbeat(header.id, wrong),
    },
    "others": {
        "stopped": lambda _, wrong: Stop(wrong),
        "error": lambda header, wrong: Stop(header.id, wrong),
        "fired": lambda _, wrong: Fire(wrong),
        "released": lambda _, wrong: Release(wrong),
        "claimed": lambda _, wrong: Claim(wrong, Claimant("here", "i"), frozenset()),
        "runner": lambda header, wrong: Claim(header.id, Claimant(wrong, "i"), frozenset({"here"})),
        "invocation": lambda header, wrong: Claim(header.id, Claimant("there", wrong), frozenset({"here"})),
        "dead": lambda header, wrong: Claim(header.id, Claimant("there", "i"), wrong),
    },
}
"""By the kind of entry, then by the field: the function that makes an entry with a wrong value in this field. The kinds are the update of
a checkpoint, the checkpoint itself, a start, a child that a checkpoint starts, the end of an invocation, an answer, and others."""


def made_live(store: Store, names: Sequence[str], *updates: Update) -> list[Header]:
    """Start an execution of each name, all in one batch, each claimed by its first invocation. Then write `updates` for each of them, in a
    second batch. Returns their headers as they are after that."""
    starts = [msgspec.structs.replace(wanted(name), by=Claimant("here", f"here-{name}")) for name in names]
    headers = [answer.header for answer in answers(store, *starts) if isinstance(answer, Started)]
    assert len(headers) == len(names)
    if updates:
        answers(store, *(checkpoint(header, *updates) for header in headers))
    found = [store.find(header.id) for header in headers]
    return [header for header in found if header is not None]


WAITING: Final = callback("c")
"""The update that the execution of an invalid entry has written before: it opens the callback `c`."""
