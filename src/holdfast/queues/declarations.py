"""Queues as code and holdfast.toml declare them: `holdfast.Queue` in Python, `[queues.NAME]` in the operator's file.

A declaration is checked when it is made, so that the error points to its line. The engine writes declarations when it opens a store. What
an operator sets later with `holdfast queues set` wins over both declarations.
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
    """A queue: how many of its executions may run at once, and how many may begin in a time.

    `at_once` and `rates` limit the whole queue; `per_tenant` limits each tenant in it, and `per_key` each key that callers give. The runs
    of workers and pipelines are executions too.
    """

    at_once: int | None = None
    """How many executions may hold a slot at the same time; None: no limit."""
    rates: str | Sequence[str] = ()
    """How many executions, or how many tokens, may be admitted in a time: `"100/m"`, `"20000 tokens/m burst 5000"`. At most one rate of
    executions and one rate of tokens."""
    per_tenant: Limits = Limits()
    """The limits of each tenant in the queue."""
    per_key: Limits = Limits()
    """The limits of each key in the queue."""
    waiting: Literal["holds", "free"] = "holds"
    """What an execution does with its slot while it waits for a timer, an answer or a person: `holds` keeps it; `free` gives it back, and
    the execution needs another slot to continue. In an ordered queue the slot is always kept."""
    ordered: bool = False
    """Whether executions of one key run one after the other, in the order in which they entered the queue: when they were enqueued, or at
    the end of their delay. Each enqueue must then give a key."""
    most_waiting: int | None = None
    """At most this many executions may wait; a further one is refused with `overloaded`. None: no limit."""
    most_waiting_usd: float | None = None
    """The highest estimated cost of all waiting executions together, in dollars; an execution that would go beyond it is refused with
    `overloaded`, unless those that wait cost nothing. None: no limit."""
    oldest: int | str | None = None
    """A new execution is refused with `overloaded` while another one has waited longer than this: seconds, or a text such as `"10m"`. None:
    no limit."""
    ttl: int | str | None = None
    """How long an execution may wait before it expires, unless its caller gives another time: seconds, or a text such as `"1h"`. None: no
    limit."""
    parks: bool = True
    """Whether executions that failed or timed out are parked, so that a person can look at them and start them again under the same
    name."""

    def __post_init__(self) -> None:
        self.row()

    def row(self) -> QueueRow:
        """The declaration as the store keeps it. Raises InvalidParameter if a value is not allowed."""
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
    """The seconds of a duration that is a text such as `10m`. A value that is not a text is returned unchanged. Raises InvalidParameter for
    another text; `what` names the value in that error."""
    if not isinstance(value, str):
        return value
    form = _DURATION.fullmatch(value)
    if form is None:
        raise InvalidParameter(f"{what} is {value!r:.80}. Write seconds as a number, or an integer with s, m, h or d: '30s', '10m', '2h'.")
    return int(form[1]) * _SECONDS[form[2]]


MEMBERS: Final = tuple(name for name in Queue.__struct_fields__ if name != "name")
"""The members that a declaration may have, in Python and in holdfast.toml."""


def checked_table(name: str, table: Any) -> QueueTable:
    """A table of holdfast.toml, as arguments of `Queue`. Raises InvalidParameter if a value is not allowed, and for an unknown name: a
    misspelled limit would be no limit."""
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
    """The declarations of the code and of the operator's file together, one for each queue. If both set the same member, the file wins.
    Raises InvalidParameter if the code declares a queue twice, with different settings, or if a member of `code` is not a Queue."""
    found: dict[str, Queue] = {}
    for queue in code:
        if not isinstance(queue, Queue):
            raise InvalidParameter(f"{queue!r:.100} is not a queue. Write holdfast.Queue(name, …).")
        if found.setdefault(queue.name, queue).row() != queue.row():
            raise InvalidParameter(f"Queue {queue.name} is declared twice, with different settings. Keep one of the declarations.")
    for name, table in operators.items():
        found[name] = msgspec.structs.replace(found.get(name, Queue(name)), **table)
    return tuple(found.values())
