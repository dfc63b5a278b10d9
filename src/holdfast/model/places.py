"""Places: where an execution stands in a queue, and whether it holds a slot there.

An execution that was enqueued has a place in its header. Two pure functions of the header say whether it waits in its lane (`waits`) and
whether it holds a slot (`holds`). Whenever the store writes a header, it adds the change of both to the lanes above the execution. So a
slot is given back exactly once, in whatever way the execution ends.

A lane is named by its path. The first part is the queue, then come the tenant and, if the caller gives one, a key; the last part is the
function with its version:

    emails / tenant=acme / key=user-7 / function=send:3

Limits belong to the queue, to each tenant and to each key. The last lane, the leaf, holds executions of one function and version only, so
a runner takes only what it can run.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote

import msgspec

from holdfast.model.errors import InvalidParameter

MAX_KEY: Final = 256
"""The most characters of a key."""
NEVER: Final = 253_402_300_799_000
"""A deadline that is never reached: the end of the year 9999. A queued execution without a time to live has it until it is admitted."""
_QUEUE: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_PART: Final = 160
"""The most characters of one part of a path. A longer one is cut and ends with its digest: a database bounds the length of an index."""


class Level:
    """The levels of a path that may have limits."""

    QUEUE: Final = "queue"
    TENANT: Final = "tenant"
    KEY: Final = "key"
    LEAF: Final = "function"


class Place(msgspec.Struct, frozen=True, gc=False):
    """The place of an execution in a queue, fixed when it is enqueued but for `admitted_at`."""

    queue: str
    lane: str
    """The leaf lane. The lanes above it are its path (`path`)."""
    order_at: int
    """Its position in the lane's order: the time at which the execution entered the lane, minus its head start."""
    admitted_at: int | None = None
    """When the execution was admitted for the first time."""
    holds_waiting: bool = True
    """Whether the execution keeps its slot while it waits. If not, it enters its lane again when it wakes, with its old `order_at`."""
    units: int = 0
    """The estimated number of tokens, for rates of tokens."""
    parks: bool = True
    """Whether the execution is parked if it fails, so that a person may start it again under the same key."""
    money: int = 0
    """What the execution is estimated to cost, in billionths of a dollar."""


class Only(msgspec.Struct, frozen=True):
    """What a runner takes, if it does not take everything: executions of these queues and of these tenants. An empty set allows all.

    With queues, the runner does not take executions that were started without a queue; but it takes executions that another one invoked,
    because their parent may be of one of these queues.
    """

    queues: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()

    def reaches(self, lane: str) -> bool:
        """Whether a lane, or one below it, may hold executions that the runner takes."""
        queue, _, below = lane.partition("/")
        if self.queues and queue not in self.queues:
            return False
        return not self.tenants or not below or below.partition("/")[0] in self._tenant_parts

    @property
    def _tenant_parts(self) -> frozenset[str]:
        return frozenset(f"{Level.TENANT}={_escaped(tenant, 'tenant')}" for tenant in self.tenants)


def checked_queue(name: object) -> str:
    """The name of a queue, if it is one."""
    if not isinstance(name, str) or not _QUEUE.fullmatch(name):
        raise InvalidParameter(f"{name!r:.100} is not a name of a queue. Use 1 to 64 letters, digits, '_', '.' or '-'.")
    return name


def lane_of(queue: str, tenant: str | None, key: str | None, function: str, version: str) -> str:
    """The leaf lane of an execution. Each part is escaped, so no tenant or key can name another's lane."""
    try:
        return _joined(queue, tenant, key, function, version)
    except TypeError:  # the cache cannot hold it
        raise InvalidParameter("The parts of a lane are texts.") from None


@lru_cache(maxsize=4096)
def _joined(queue: str, tenant: str | None, key: str | None, function: str, version: str) -> str:
    parts = [checked_queue(queue), f"{Level.TENANT}={_escaped(tenant or 'default', 'tenant')}"]
    if key is not None:
        parts.append(f"{Level.KEY}={_escaped(key, 'key')}")
    parts.append(f"{Level.LEAF}={_escaped(function, 'function')}:{_escaped(version, 'version')}")
    return "/".join(parts)


def tenant_lane(queue: str, tenant: str) -> str:
    """The lane of all executions of a tenant in a queue."""
    return f"{checked_queue(queue)}/{Level.TENANT}={_escaped(tenant, 'tenant')}"


@lru_cache(maxsize=4096)
def path(lane: str) -> tuple[str, ...]:
    """The lanes of a path, from the queue down to the leaf itself."""
    parts = lane.split("/")
    return tuple("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def level_of(lane: str) -> str:
    """The level of a lane."""
    head, _, last = lane.rpartition("/")
    return last.partition("=")[0] if head else Level.QUEUE


def parent_of(lane: str) -> str:
    """The lane above a lane; empty for a queue."""
    return lane.rpartition("/")[0]


def _escaped(text: object, what: str) -> str:
    if not isinstance(text, str) or not text or len(text) > MAX_KEY or not text.isprintable():
        raise InvalidParameter(f"A {what} of a queue is a text of 1 to {MAX_KEY} printable characters, not {text!r:.100}.")
    escaped = quote(text, safe="$+@.-_ ")
    return escaped if len(escaped) <= _PART else f"{escaped[: _PART - 33]}!{sha256(text.encode()).hexdigest()[:32]}"  # '!' is else escaped
