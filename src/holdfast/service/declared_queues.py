"""Queues as code and holdfast.toml declare them: `holdfast.Queue` in Python, `[queues.NAME]` in the operator's file.

A declaration is checked when it is made, so that the error points to its line. The engine writes declarations when it opens a store. What
an operator sets later with `holdfast queues set` wins over both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from holdfast.contract.notes import meant
from holdfast.model.errors import InvalidParameter
from holdfast.model.queues import Limits, QueueRow, checked_declaration

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
QueueTable = Mapping[str, Any]
"""The content of a table `[queues.NAME]`, as arguments of `Queue`."""
_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)


class _Named(msgspec.Struct, frozen=True):
    name: str


class Queue(_Named, frozen=True, kw_only=True):
    """A queue: how many of its runs may go on at once, and how fast they may begin.

    Limits of the whole queue are `at_once` and `rates`; `per_tenant` limits each tenant, `per_key` each key that callers give.
    """

    at_once: int | None = None
    """How many runs may hold a slot at the same time. None: no limit."""
    rates: str | Sequence[str] = ()
    """How fast runs may begin: `"100/m"`, `"20000 tokens/m burst 5000"`."""
    per_tenant: Limits = Limits()
    """Limits of each tenant."""
    per_key: Limits = Limits()
    """Limits of each key."""
    waiting: Literal["holds", "free"] = "holds"
    """Whether a run keeps its slot while it waits for a timer, an answer or a person. `free`: it waits for a slot again when it wakes."""
    ordered: bool = False
    """Whether runs of one key go one after the other, in the order in which they were enqueued."""
    most_waiting: int | None = None
    """The most runs that may wait. A further one is refused with `overloaded`."""
    most_waiting_usd: float | None = None
    """What all runs that wait may be estimated to cost together, in dollars. A further one is refused with `overloaded`."""
    oldest: int | str | None = None
    """A new run is refused while one has waited longer than this: seconds, or a text such as `"10m"`."""
    ttl: int | str | None = None
    """How long a run may wait before it expires, unless its caller says otherwise: seconds, or a text such as `"1h"`."""
    parks: bool = True
    """Whether failed runs are parked, so that a person can look at them and start them again under the same key."""

    def __post_init__(self) -> None:
        self.row()

    def row(self) -> QueueRow:
        """The declaration as the store keeps it."""
        try:
            return checked_declaration(self.name, self.members())
        except InvalidParameter as wrong:
            raise InvalidParameter(f"Queue {self.name!r:.100}: {wrong}") from None

    def members(self) -> dict[str, Any]:
        """The members of `model.queues.QueueSettings` that this declaration sets. Members with their default value are left out."""
        said: dict[str, Any] = {
            "limits": _limits(Limits(self.at_once, self.rates), "limits"),  # type: ignore[arg-type]
            "per_tenant": _limits(self.per_tenant, "per_tenant"),
            "per_key": _limits(self.per_key, "per_key"),
            "waiting": self.waiting,
            "ordered": self.ordered,
            "most_waiting": self.most_waiting,
            "most_waiting_usd": self.most_waiting_usd,
            "oldest_seconds": seconds_of(self.oldest, "oldest"),
            "ttl_seconds": seconds_of(self.ttl, "ttl"),
            "parks": self.parks,
        }
        return {name: value for name, value in said.items() if value != _DEFAULTS[name]}


def _limits(limits: Limits, where: str) -> dict[str, Any]:
    if not isinstance(limits, Limits):
        raise InvalidParameter(f"{where} is {limits!r:.100}; write it as Limits(at_once=…, rates=[…]).")
    said: dict[str, Any] = {} if limits.at_once is None else {"at_once": limits.at_once}
    rates: Any = limits.rates
    if rates:
        said["rates"] = [rates] if isinstance(rates, str) else list(rates) if isinstance(rates, list | tuple) else rates
    return said


_DEFAULTS: Final[Mapping[str, Any]] = {
    "limits": {},
    "per_tenant": {},
    "per_key": {},
    "waiting": "holds",
    "ordered": False,
    "most_waiting": None,
    "most_waiting_usd": None,
    "oldest_seconds": None,
    "ttl_seconds": None,
    "parks": True,
}


def seconds_of(value: Any, what: str) -> Any:
    """The seconds of a time that is a number or a text such as `10m`."""
    if not isinstance(value, str):
        return value
    form = _DURATION.fullmatch(value)
    if form is None:
        raise InvalidParameter(f"{what} is {value!r:.80}. Write seconds as a number, or an integer with s, m, h or d: '30s', '10m', '2h'.")
    return int(form[1]) * _SECONDS[form[2]]


MEMBERS: Final = tuple(name for name in Queue.__struct_fields__ if name != "name")
"""The members that a declaration may have, in Python and in holdfast.toml."""


def checked_table(name: str, table: Any) -> QueueTable:
    """A table of holdfast.toml, as arguments of `Queue`. An unknown member is an error: a misspelled limit would be no limit."""
    if not isinstance(table, dict):
        raise InvalidParameter(f"queues.{name:.100} is {table!r:.100}; write a table of settings, as [queues.{name:.100}].")
    _check_known(table, MEMBERS, name)
    said = dict(table)
    for level in ("per_tenant", "per_key"):
        if level in said:
            if not isinstance(said[level], dict):
                raise InvalidParameter(f"Queue {name!r:.100}: {level} is {said[level]!r:.100}; write a table with at_once and rates.")
            _check_known(said[level], Limits.__struct_fields__, f"{name}.{level}")
            said[level] = Limits(**said[level])
    Queue(name, **said)
    return said


def _check_known(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = [name for name in table if name not in known]
    if unknown:
        told = ", ".join(map(str, unknown))
        may = f"it may have {', '.join(known)}.{meant(unknown[0], known)}"
        raise InvalidParameter(f"[queues.{where}] has {told:.200}, which Holdfast does not know; {may}")


def declared_together(code: Iterable[Queue], operators: Mapping[str, QueueTable]) -> tuple[Queue, ...]:
    """Join the declarations of the code and of the operator's file: one for each queue. Where both set the same member, the file wins."""
    found: dict[str, Queue] = {}
    for queue in code:
        if not isinstance(queue, Queue):
            raise InvalidParameter(f"{queue!r:.100} is not a queue. Write holdfast.Queue(name, …).")
        if found.setdefault(queue.name, queue).row() != queue.row():
            raise InvalidParameter(f"Queue {queue.name} is declared twice, with different settings.")
    for name, table in operators.items():
        found[name] = msgspec.structs.replace(found.get(name, Queue(name)), **table)
    return tuple(found.values())
