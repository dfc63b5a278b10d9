"""Queues: what an operator or an author sets for a queue, and which setting is in force.

The code and holdfast.toml declare settings, and an operator may set some of them while the queue runs. For each setting, the operator's
value wins over the declared one, and both are shown. A queue with neither has no limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model import json_structs
from holdfast.model.durations import MAX_SECONDS
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Word
from holdfast.model.places import Level, checked_queue
from holdfast.model.rates import Rate, parsed_rate
from holdfast.model.wrong_values import wrong_value

UNLIMITED: Final = 2**31
"""The number that stands for "no limit" where the store keeps the `at_once` of a lane."""
MAX_RATES: Final = 4
"""A level with more rates than this is refused before any rate is parsed. Of the parsed ones, at most one may limit executions, and at most
one may limit tokens."""


class Mode(Word):
    """Whether a queue accepts new executions, and whether it admits waiting ones."""

    OPEN = "open"
    """It accepts new executions, and admits waiting ones."""
    PAUSED = "paused"
    """It accepts executions, and admits none."""
    DRAINING = "draining"
    """It admits the executions that wait, and accepts no new ones."""


class Waiting(Word):
    """What an execution does with its slot while it waits for a timer, an answer or a person."""

    HOLDS = "holds"
    """It keeps the slot."""
    FREE = "free"
    """It gives the slot back, and needs another one to continue."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a queue, of each tenant in it, or of each key in it."""

    at_once: int | None = None
    """How many executions may hold a slot at the same time; None: no limit."""
    rates: tuple[str, ...] = ()
    """Texts that say how many executions (`100/m`) or how many tokens (`20000 tokens/m burst 5000`) may be admitted in a time. At most one
    rate of executions and one rate of tokens."""

    def parsed_rates(self) -> tuple[Rate, ...]:
        """The rates as objects. Raises InvalidParameter if a text is not a rate."""
        return tuple(parsed_rate(text) for text in self.rates)


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What can be set for a queue. A number that is None sets no limit."""

    limits: Limits = Limits()
    """The limits of the whole queue."""
    per_tenant: Limits = Limits()
    """The limits of each tenant in the queue."""
    per_key: Limits = Limits()
    """The limits of each key in the queue."""
    waiting: Waiting = Waiting.HOLDS
    """What an execution does with its slot while it waits for a timer, an answer or a person."""
    ordered: bool = False
    """Whether executions of one key run one after the other, in the order in which they entered their lane: when they were enqueued, or at
    the end of their delay."""
    most_waiting: int | None = None
    """At most this many executions may wait; a further one is refused."""
    most_waiting_usd: float | None = None
    """The highest estimated cost of all waiting executions together, in dollars. An execution that would go beyond it is refused, unless
    the waiting ones cost nothing."""
    oldest_seconds: int | None = None
    """A new execution is refused while an execution in the queue has waited longer than this many seconds."""
    ttl_seconds: int | None = None
    """How many seconds an execution may wait before it expires, unless its caller gives another time."""
    parks: bool = True
    """Whether executions that failed or timed out are parked: marked so that a person may start them again under the same name."""

    def at(self, level: str) -> Limits:
        """The limits of a level (`places.Level`); the level of leaf lanes has none. In an ordered queue, each key has at most one slot at
        the same time."""
        if level == Level.QUEUE:
            return self.limits
        if level == Level.TENANT:
            return self.per_tenant
        if level == Level.KEY:
            return msgspec.structs.replace(self.per_key, at_once=1) if self.ordered else self.per_key
        return Limits()

    def checked(self) -> QueueSettings:
        """These settings themselves. Raises InvalidParameter if a value is not allowed."""
        for where, limits in (("", self.limits), ("per_tenant.", self.per_tenant), ("per_key.", self.per_key)):
            _check_whole(f"{where}at_once", limits.at_once, UNLIMITED - 1)
            if len(limits.rates) > MAX_RATES:
                raise InvalidParameter(f"{where}rates has {len(limits.rates)} rates; use at most one of runs and one of tokens.")
            kinds = [rate.kind for rate in limits.parsed_rates()]
            if len(kinds) != len(set(kinds)):
                raise InvalidParameter(f"{where}rates limits one kind of unit twice. Keep one rate of each kind.")
        if self.ordered and self.per_key.at_once not in (None, 1):
            raise InvalidParameter("An ordered queue runs one execution of a key at once: leave per_key.at_once out.")
        _check_whole("most_waiting", self.most_waiting, 10**12)
        if self.most_waiting_usd is not None and not 0 < self.most_waiting_usd <= 10**6:
            raise InvalidParameter(f"most_waiting_usd is {self.most_waiting_usd!r}; use dollars above 0, up to 1,000,000.")
        _check_whole("oldest (in seconds)", self.oldest_seconds, MAX_SECONDS)
        _check_whole("ttl (in seconds)", self.ttl_seconds, MAX_SECONDS)
        return self


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as the store keeps it."""

    name: str
    declared: Mapping[str, Any] = {}
    """What the code or holdfast.toml declares: members of `QueueSettings` as JSON values."""
    operator: Mapping[str, Any] = {}
    """What an operator has set: members of `QueueSettings` as JSON values."""
    mode: Mode = Mode.OPEN
    revision: int = 0
    """It grows with each change of this row."""

    def settings(self) -> QueueSettings:
        """The settings in force: what the operator has set, else what is declared, else the default."""
        return settings_from(together(self.declared, self.operator))


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a queue, or of one tenant in it, at this moment."""

    waiting: int = 0
    """How many executions wait in its lanes."""
    delayed: int = 0
    """How many executions wait for the end of their delay."""
    held: int = 0
    """How many executions hold a slot."""
    oldest_at: int | None = None
    """Since when the execution that has waited longest waits in its lane, in milliseconds since 1970-01-01 UTC; None if none waits, or if
    these are the numbers of one tenant."""
    parked: int = 0
    """How many executions are parked."""
    admitted: int = 0
    """How many executions were admitted since the queue was made; 0 in the numbers of one tenant."""
    per_minute: float = 0.0
    """About how many executions the queue admitted in the last minute."""
    money: int = 0
    """The estimated cost of all waiting executions together, in billionths of a dollar. Executions are estimated only in queues with
    `most_waiting_usd`; in any other queue, and in the numbers of one tenant, this is 0."""


class LaneState(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one lane at this moment."""

    key: str
    """The path of the lane."""
    level: str
    """The level of the lane (`places.Level`)."""
    waiting: int
    """How many executions wait in the lane and in all lanes below it."""
    held: int
    """How many executions of the lane and of all lanes below it hold a slot."""
    at_once: int | None
    """How many executions of the lane and of all lanes below it may hold a slot at the same time; None: no limit."""
    closed_until: int | None
    """The time before which the lane admits nothing, because a rate is used up or because it cools down; None if the lane was not closed in
    this way. If the time is in the past, the lane admits again."""


def together(declared: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The declared settings, with the operator's values in place of the declared ones. Inside `limits`, `per_tenant` and `per_key`, each
    limit is replaced separately: a limit that the operator has not set keeps its declared value."""
    both = {**declared, **operator}
    for level in ("limits", "per_tenant", "per_key"):
        if level in declared and level in operator:
            both[level] = {**declared[level], **operator[level]}
    return both


def settings_from(document: Mapping[str, Any]) -> QueueSettings:
    """The settings that a JSON object describes. Raises InvalidParameter if a member is not allowed; the error names that member."""
    try:
        return json_structs.converted(dict(document), QueueSettings).checked()
    except msgspec.ValidationError as problem:
        told = wrong_value(problem, QueueSettings).replace("`limits.", "`")  # people write `at_once`, not `limits.at_once`
        raise InvalidParameter(f"The settings of a queue are not right: {told}.") from None


def checked_declaration(name: str, declared: Mapping[str, Any]) -> QueueRow:
    """A queue with these declared settings. Raises InvalidParameter if the name or a setting is not allowed."""
    settings_from(declared)
    return QueueRow(name=checked_queue(name), declared=dict(declared))


def _check_whole(what: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise InvalidParameter(f"{what} is {value!r}; use a whole number from 1 up to {most:,}.")
