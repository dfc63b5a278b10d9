"""Connections: how many clients may connect, in all and from one address. The engine needs file descriptors too. The usual limits are:

    limit for all    half of the file descriptors that this process may have, at most 8192; the others are left for the engine
    limit for one    one address may have half of these connections, so that it cannot use up all

At the limit for one, the server closes an idle connection of the same address: the one whose last request is the longest time ago. At the
limit for all, it closes such a connection of the address that has most connections, if the new client's address has fewer. If there is no
such idle connection, the new client is refused.
"""

from __future__ import annotations

import logging
import resource
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from holdfast.model.clock import monotonic

log = logging.getLogger("holdfast.server")

MOST: Final = 8192
_LEAST: Final = 8
_TOLD_SECONDS: Final = 10.0


class Connection(Protocol):
    """What `Connections` needs of a connection."""

    @property
    def address(self) -> str: ...

    @property
    def is_idle(self) -> bool:
        """Whether no request of the connection is being answered now."""
        ...

    def end(self) -> None: ...


class Connections:
    """All open connections of a server, counted by address."""

    def __init__(self, most: int | None = None, most_of_one: int | None = None, now: Callable[[], float] = monotonic) -> None:
        self.most = usual_most() if most is None else most
        self.most_of_one = max(1, self.most // 2) if most_of_one is None else most_of_one
        self._open: dict[str, OrderedDict[int, Connection]] = {}
        """The connections by address. For each address, the connection whose last request is oldest comes first."""
        self._count = 0
        self._now = now
        self._refused = 0
        self._told_at: float | None = None

    def __len__(self) -> int:
        return self._count

    def open(self, connection: Connection) -> str | None:
        """Count one more connection, and return None. If a limit is reached, an idle connection is closed to make room. If no idle
        connection can be closed, the new one is not counted, and the result is the reason: the part of a sentence that follows a colon,
        without a period."""
        address = connection.address
        if len(self._open.get(address, ())) >= self.most_of_one and not self._made_room(address):
            return self._refusal(address, f"at most {self.most_of_one} connections of one address are allowed")
        if self._count >= self.most and ((crowd := self._crowd(address)) is None or not self._made_room(crowd)):
            return self._refusal(address, f"at most {self.most} connections are allowed")
        self._open.setdefault(address, OrderedDict())[id(connection)] = connection
        self._count += 1
        return None

    def asked(self, connection: Connection) -> None:
        """Note that a request has arrived on this connection. Of the connections of the same address, this one is now the last to be closed
        to make room."""
        held = self._open.get(connection.address, OrderedDict())
        if id(connection) in held:
            held.move_to_end(id(connection))

    def closed(self, connection: Connection) -> None:
        """Stop counting a connection, because it is closed. Does nothing if it is not counted."""
        held = self._open.get(connection.address, OrderedDict())
        if held.pop(id(connection), None) is not None:
            self._count -= 1
            if not held:
                del self._open[connection.address]

    def _crowd(self, newcomer: str) -> str | None:
        """The address that has most connections. None if the address `newcomer` has as many."""
        address = max(self._open, key=lambda one: len(self._open[one]))
        return address if len(self._open[address]) > len(self._open.get(newcomer, ())) else None

    def _made_room(self, address: str) -> bool:
        """Close one idle connection of this address: the idle one whose last request is the longest time ago. Returns False, and closes
        nothing, if no connection of the address is idle."""
        idle = next((held for held in self._open.get(address, OrderedDict()).values() if held.is_idle), None)
        if idle is not None:
            self.closed(idle)
            idle.end()
        return idle is not None

    def _refusal(self, address: str, why: str) -> str:
        """Count a refused connection, and return `why`. At most every 10 seconds, log how many were refused since the last such line."""
        self._refused += 1
        now = self._now()
        if self._told_at is None or now - self._told_at >= _TOLD_SECONDS:
            log.warning("Refused connections since the last such line: %d. The last came from %s: %s.", self._refused, address, why)
            self._told_at, self._refused = now, 0
        return why


def usual_most() -> int:
    """Half of the file descriptors that this process may have, at least 8 and at most 8192."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(soft // 2, MOST))
