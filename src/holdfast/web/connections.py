"""Connections: how many clients may connect, in all and from one address. The engine needs file descriptors of its own.

limit for all       half of the descriptors that this process may have; the rest is the engine's
limit for one       half of that for one address, so that other addresses can always connect
at the limit        the server closes the connection that is idle longest, of the address that holds most, for an address that holds less
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
    """One connection, as far as it is counted."""

    @property
    def address(self) -> str:
        """The address of its client."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether the server answers no request of it now."""
        ...

    def end(self) -> None:
        """Close it."""
        ...


class Connections:
    """All connections of a server."""

    def __init__(self, most: int | None = None, most_of_one: int | None = None, now: Callable[[], float] = monotonic) -> None:
        self.most = usual_most() if most is None else most
        self.most_of_one = max(1, self.most // 2) if most_of_one is None else most_of_one
        self._open: dict[str, OrderedDict[int, Connection]] = {}
        """By address; the connection whose last request is oldest is the first."""
        self._count = 0
        self._now = now
        self._refused = 0
        self._told_at: float | None = None

    def __len__(self) -> int:
        return self._count

    def open(self, connection: Connection) -> str | None:
        """Count one more connection. If it is one too many, returns the reason as the end of a sentence, and does not count it."""
        address = connection.address
        if len(self._open.get(address, ())) >= self.most_of_one and not self._made_room(address):
            return self._refusal(address, f"{self.most_of_one} connections of one address are the most")
        if self._count >= self.most and not self._made_room(self._crowd(address)):
            return self._refusal(address, f"{self.most} connections are the most")
        self._open.setdefault(address, OrderedDict())[id(connection)] = connection
        self._count += 1
        return None

    def asked(self, connection: Connection) -> None:
        """Note that a request arrived on this connection, so that it counts as the one idle for the shortest time."""
        held = self._open.get(connection.address, OrderedDict())
        if id(connection) in held:
            held.move_to_end(id(connection))

    def closed(self, connection: Connection) -> None:
        """The connection is closed."""
        held = self._open.get(connection.address, OrderedDict())
        if held.pop(id(connection), None) is not None:
            self._count -= 1
            if not held:
                del self._open[connection.address]

    def _crowd(self, newcomer: str) -> str | None:
        """The address that holds most connections, if it holds more than the address of the new one."""
        address = max(self._open, key=lambda one: len(self._open[one]))
        return address if len(self._open[address]) > len(self._open.get(newcomer, ())) else None

    def _made_room(self, address: str | None) -> bool:
        """Close the connection of an address that has been idle longest. Returns whether there was an idle one."""
        idle = next((held for held in self._open.get(address or "", OrderedDict()).values() if held.is_idle), None)
        if idle is not None:
            self.closed(idle)
            idle.end()
        return idle is not None

    def _refusal(self, address: str, why: str) -> str:
        """Log refused connections, at most every few seconds."""
        self._refused += 1
        now = self._now()
        if self._told_at is None or now - self._told_at >= _TOLD_SECONDS:
            log.warning("Refused connections since the last such line: %d. The last came from %s: %s.", self._refused, address, why)
            self._told_at, self._refused = now, 0
        return why


def usual_most() -> int:
    """Half of the descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(_LEAST, min(soft // 2, MOST))
