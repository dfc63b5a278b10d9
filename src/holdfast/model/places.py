"""Places: where an execution is in a queue.

An execution that was enqueued has a place in its header. Two functions of admission.py say from the header alone whether it waits in its
lane (`waits`) and whether it holds a slot (`holds`). Whenever the store writes a header, it adds the change of both to the numbers of the
lanes above the execution. So a slot is given back exactly once, in whatever way the execution ends.

A lane is named by its path. The first part is the queue, then come the tenant and, if the caller gives one, a key; the last part is the
function with its version:

    emails / tenant=acme / key=user-7 / function=send:3

All leaf lanes of a function and a tenant share the rate of the function itself, whatever their queue, key and version (`shared_rate_of`).
If that rate is one for each user, the leaf also names the user: `function=send:3;user=ann`.

Limits belong to the queue, to each tenant and to each key. The last lane, the leaf, holds executions of one function and version only, so a
runner claims only what it can run.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from holdfast.model.credentials import tenant_of
from holdfast.model.errors import InvalidParameter

MAX_KEY: Final = 256
"""A key, a tenant, a user, a function and a version have at most this many characters."""
NEVER: Final = 253_402_300_799_000
"""A deadline that is never reached: the end of the year 9999. A queued execution without a time to live has it until it is admitted."""
_QUEUE: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_USER: Final = ";user="
"""Stands between the function and the user in the last part of a leaf lane's path. An escaped name contains no semicolon, so this text
cannot be a part of a name."""
_PART: Final = 160
"""One name in a path (a tenant, a key, a function, a version or a user) has at most this many characters after escaping. A longer one is
cut and ends with its digest, because a database limits the length of index entries."""


class Level:
    """The levels of a lane's path, from the top down."""

    QUEUE: Final = "queue"
    TENANT: Final = "tenant"
    KEY: Final = "key"
    LEAF: Final = "function"


class Place(msgspec.Struct, frozen=True, gc=False):
    """The place of an execution in a queue. It is made when the execution is enqueued. Times are in milliseconds since 1970-01-01 UTC."""

    queue: str
    lane: str
    """The leaf lane of the execution, as a path. The function `path` of this module returns this lane and all lanes above it."""
    order_at: int
    """Its position in the lane's order: the time at which the execution entered the lane, minus its head start."""
    admitted_at: int | None = None
    """When the execution was admitted for the first time; None if it was never admitted."""
    holds_waiting: bool = True
    """Whether the execution keeps its slot while it waits for a timer, an answer or a person. If it does not keep the slot, it must wait in
    its lane for another one before it continues. There it has the same `order_at` as before."""
    units: int = 0
    """How many tokens the execution is estimated to use, for rates of tokens."""
    parks: bool = True
    """Whether the execution is parked if it fails or times out, so that a person may start it again under the same name."""
    money: int = 0
    """What the execution is estimated to cost, in billionths of a dollar."""


class Only(msgspec.Struct, frozen=True):
    """Which executions a runner claims: those that are of one of these queues and also of one of these tenants. An empty set does not
    restrict.

    If `queues` is not empty, the runner claims no executions that are in no queue, except those that another execution invoked: their
    parent may be of one of these queues.
    """

    queues: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()

    def claims(self, queue: str | None, tenant: str | None, *, is_child: bool) -> bool:
        """Whether the runner claims an execution of this tenant in this queue (None: it is in no queue). `is_child`: whether another
        execution invoked it."""
        of_queue = not self.queues or (is_child if queue is None else queue in self.queues)
        return of_queue and (not self.tenants or tenant_of(tenant) in self.tenants)

    def reaches(self, lane: str) -> bool:
        """Whether executions that the runner claims may be in this lane or in a lane below it."""
        queue, _, below = lane.partition("/")
        if self.queues and queue not in self.queues:
            return False
        return not self.tenants or not below or below.partition("/")[0] in self._tenant_parts

    @property
    def _tenant_parts(self) -> frozenset[str]:
        return frozenset(f"{Level.TENANT}={_escaped(tenant, 'tenant')}" for tenant in self.tenants)


def checked_queue(name: object) -> str:
    """The name itself. Raises InvalidParameter if it is not a name of a queue."""
    if not isinstance(name, str) or not _QUEUE.fullmatch(name):
        raise InvalidParameter(f"{name!r:.100} is not a name of a queue. Use 1 to 64 letters, digits, '_', '.' or '-'.")
    return name


def lane_of(queue: str, tenant: str | None, key: str | None, function: str, version: str, user: str | None = None) -> str:
    """The leaf lane of an execution, as a path. Each part is escaped, so that no choice of a tenant, a key or a user gives the lane of
    another one. `tenant` None means the tenant `default`; `key` None means a lane without a key. `user` is given only if the function has a
    rate for each user. Raises InvalidParameter if a part is not allowed."""
    try:
        return _joined(queue, tenant, key, function, version, user)
    except TypeError:  # a value that the cache cannot hash, for example a list
        raise InvalidParameter(
            "The queue, the tenant, the key, the user, the function and the version of an enqueue must be texts."
        ) from None


@lru_cache(maxsize=4096)
def _joined(queue: str, tenant: str | None, key: str | None, function: str, version: str, user: str | None) -> str:
    parts = [checked_queue(queue), f"{Level.TENANT}={_escaped(tenant or 'default', 'tenant')}"]
    if key is not None:
        parts.append(f"{Level.KEY}={_escaped(key, 'key')}")
    of_user = "" if user is None else f"{_USER}{_escaped(user, 'user')}"
    parts.append(f"{Level.LEAF}={_escaped(function, 'function')}:{_escaped(version, 'version')}{of_user}")
    return "/".join(parts)


def tenant_lane(queue: str, tenant: str) -> str:
    """The lane of all executions of a tenant in a queue."""
    return f"{checked_queue(queue)}/{Level.TENANT}={_escaped(tenant, 'tenant')}"


@lru_cache(maxsize=4096)
def shared_rate_of(leaf: str) -> str:
    """The key of the shared rate to which a leaf lane belongs. Leaf lanes share one rate if they have the same function and tenant, and the
    same user if they name one; their queues, keys and versions make no difference. The key is not the path of a lane: it begins with `~`,
    which no name of a queue does."""
    parts = leaf.split("/")
    function, _, user = parts[-1].partition("=")[2].partition(_USER)
    return "/".join(["~" + function.rpartition(":")[0], parts[1], *([f"user={user}"] if user else [])])


def key_of(leaf: str) -> str | None:
    """The key in the path of a leaf lane, to be shown to people; None if the path has no key. A long key is cut in the path, so it is cut
    here too."""
    return next((unquote(part.partition("=")[2]) for part in leaf.split("/") if part.startswith(f"{Level.KEY}=")), None)


def lane_beside(leaf: str, version: str) -> str:
    """The leaf lane that differs from `leaf` only in the version: queue, tenant, key, function and user are the same."""
    head, _, last = leaf.rpartition("/")
    function, user_mark, user = last.partition(_USER)
    return f"{head}/{function.rpartition(':')[0]}:{_escaped(version, 'version')}{user_mark}{user}"


@lru_cache(maxsize=4096)
def path(lane: str) -> tuple[str, ...]:
    """A lane with all lanes above it: first the queue, then each lane below, and the lane itself last."""
    parts = lane.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def level_of(lane: str) -> str:
    """The level of a lane: a constant of `Level`."""
    head, _, last = lane.rpartition("/")
    return last.partition("=")[0] if head else Level.QUEUE


def parent_of(lane: str) -> str:
    """The lane above a lane; empty for a queue."""
    return lane.rpartition("/")[0]


def _escaped(text: object, what: str) -> str:
    if not isinstance(text, str) or not text or len(text) > MAX_KEY or not text.isprintable():
        raise InvalidParameter(f"The {what} must be a text of 1 to {MAX_KEY} printable characters; it is {text!r:.100}.")
    escaped = quote(text, safe="$+@.-_ ")
    return escaped if len(escaped) <= _PART else f"{escaped[: _PART - 33]}!{sha256(text.encode()).hexdigest()[:32]}"  # `quote` escapes '!'
