"""Queues: what an operator or an author sets for a queue, and which setting is in force.

A queue has what the code declares, and what an operator has set while it runs. The operator's setting wins, member by member, and both are
shown. A queue that was never declared has no limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model import reading
from holdfast.model.durations import MAX_SECONDS
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Word
from holdfast.model.places import Level, checked_queue
from holdfast.model.rates import Rate, parsed_rate
from holdfast.model.wrong_values import wrong_value

UNLIMITED: Final = 2**31
"""The `at_once` of a lane without a limit."""
MAX_RATES: Final = 4
"""The most rates of one level."""


class Mode(Word):
    """What a queue does."""

    OPEN = "open"
    PAUSED = "paused"
    """It accepts executions, and admits none."""
    DRAINING = "draining"
    """It admits the executions that wait, and accepts no new ones."""


class Waiting(Word):
    """What an execution does with its slot while it waits for a timer, an answer or a person."""

    HOLDS = "holds"
    FREE = "free"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one level: how many runs at once, and rates."""

    at_once: int | None = None
    """How many *runs* may hold a slot at the same time."""
    rates: tuple[str, ...] = ()
    """Such as `100/m` or `20000 tokens/m burst 5000` (model.rates)."""

    def parsed_rates(self) -> tuple[Rate, ...]:
        """The rates, read."""
        return tuple(parsed_rate(text) for text in self.rates)


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What can be set for a queue."""

    limits: Limits = Limits()
    """The limits of the whole queue."""
    per_tenant: Limits = Limits()
    """Of each tenant."""
    per_key: Limits = Limits()
    """Of each key."""
    waiting: Waiting = Waiting.HOLDS
    ordered: bool = False
    """Whether executions of one key run one after the other, in the order in which they were enqueued."""
    most_waiting: int | None = None
    """At most this many executions may wait; a further one is refused."""
    most_waiting_usd: float | None = None
    """The highest estimated cost of all waiting executions together, in dollars; a further execution is refused."""
    oldest_seconds: int | None = None
    """A new execution is refused while one has waited longer than this."""
    ttl_seconds: int | None = None
    """How long an execution may wait before it expires, unless its caller says otherwise."""
    parks: bool = True
    """Whether failed executions are parked."""

    def at(self, level: str) -> Limits:
        """The limits of a level. In an ordered queue, each key has one execution at once."""
        if level == Level.QUEUE:
            return self.limits
        if level == Level.TENANT:
            return self.per_tenant
        if level == Level.KEY:
            return msgspec.structs.replace(self.per_key, at_once=1) if self.ordered else self.per_key
        return Limits()

    def checked(self) -> QueueSettings:
        """These settings, if they are allowed."""
        for where, limits in (("limits", self.limits), ("per_tenant", self.per_tenant), ("per_key", self.per_key)):
            _check_whole(f"{where}.at_once", limits.at_once, UNLIMITED - 1)
            if len(limits.rates) > MAX_RATES:
                raise InvalidParameter(f"{where}.rates has {len(limits.rates)} rates; at most {MAX_RATES}.")
            kinds = [rate.kind for rate in limits.parsed_rates()]
            if len(kinds) != len(set(kinds)):
                raise InvalidParameter(f"{where}.rates limits one kind of unit twice. Keep one rate of each kind.")
        if self.ordered and self.per_key.at_once not in (None, 1):
            raise InvalidParameter("An ordered queue runs one execution of a key at once: leave per_key.at_once out.")
        _check_whole("most_waiting", self.most_waiting, 10**12)
        if self.most_waiting_usd is not None and not 0 < self.most_waiting_usd <= 10**6:
            raise InvalidParameter(f"most_waiting_usd is {self.most_waiting_usd!r}; use dollars above 0, up to 1,000,000.")
        _check_whole("oldest_seconds", self.oldest_seconds, MAX_SECONDS)
        _check_whole("ttl_seconds", self.ttl_seconds, MAX_SECONDS)
        return self


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as the store keeps it."""

    name: str
    declared: Mapping[str, Any] = {}
    """What the code declares, member by member of `QueueSettings`."""
    operator: Mapping[str, Any] = {}
    """What an operator has set."""
    mode: Mode = Mode.OPEN
    revision: int = 0

    def settings(self) -> QueueSettings:
        """The settings in force: what the operator has set, else what the code declares, else the default."""
        return settings_from(together(self.declared, self.operator))


class QueueStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue stands now."""

    waiting: int = 0
    delayed: int = 0
    held: int = 0
    oldest_at: int | None = None
    """When the execution that has waited longest was enqueued."""
    parked: int = 0
    admitted: int = 0
    """How many executions were admitted since the queue was made."""
    per_minute: float = 0.0
    """How many executions were admitted in the last minute, about."""
    money: int = 0
    """The estimated cost of all waiting executions, in billionths of a dollar. Only queues with `most_waiting_usd` have estimates."""


class LaneStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How one lane stands now."""

    key: str
    level: str
    waiting: int
    held: int
    at_once: int | None
    closed_until: int | None
    """The lane admits nothing before this time: a rate is used up, or a cool-down lasts."""


def together(declared: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's settings joined with the code's; the operator's win. Inside the limits of a level, each limit is joined by itself."""
    both = {**declared, **operator}
    for level in ("limits", "per_tenant", "per_key"):
        if level in declared and level in operator:
            both[level] = {**declared[level], **operator[level]}
    return both


def settings_from(document: Mapping[str, Any]) -> QueueSettings:
    """Settings from their JSON, checked; every problem names the member."""
    try:
        return reading.converted(dict(document), QueueSettings).checked()
    except msgspec.ValidationError as problem:
        told = wrong_value(problem, QueueSettings).replace("`limits.", "`")  # people write `at_once`, not `limits.at_once`
        raise InvalidParameter(f"The settings of a queue are not right: {told}.") from None


def checked_declaration(name: str, declared: Mapping[str, Any]) -> QueueRow:
    """A queue as code declares it, if it can be one."""
    settings_from(declared)
    return QueueRow(name=checked_queue(name), declared=dict(declared))


def _check_whole(what: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise InvalidParameter(f"{what} is {value!r}; use a whole number from 1 up to {most:,}.")
