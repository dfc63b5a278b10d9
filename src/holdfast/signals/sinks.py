"""Sinks: subscribers that send events to another system. A sink sends the events that its pattern wants. If it cannot deliver an event, it
raises DeliveryFailed, and the engine's outbox delivers the signal again later; later signals wait for it. If the sink has a file for dead
letters, it writes the event there after some tries, so that one event cannot delay all others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import DeliveryFailed, InvalidParameter
from holdfast.model.signals import StatusSignal
from holdfast.signals.event import Event, event_of
from holdfast.signals.lines import LineFile
from holdfast.signals.patterns import Pattern

log = logging.getLogger("holdfast.signals")

Wanted = Pattern | Mapping[str, Any] | str | None
"""An event pattern, as a Pattern, as JSON text or as the value of that text; None means all events."""

_TRIES: Final = 10
"""After this many tries a signal becomes a dead letter, if its sink has a file for dead letters. With the delays of the outbox this takes
about six minutes."""


def pattern_of(wanted: Wanted) -> Pattern | None:
    """The Pattern of a `Wanted`; None if it wants all events. Raises PatternInvalid if the pattern is not valid."""
    return wanted if wanted is None or isinstance(wanted, Pattern) else Pattern(wanted)


class Sink:
    """The base of sinks: the event pattern, and the number of tries of the signal that cannot be delivered."""

    def __init__(
        self,
        name: str,
        *,
        pattern: Wanted = None,
        dead_letters: str | os.PathLike[str] | None = None,
        tries: int = _TRIES,
        clock: Clock | None = None,
    ) -> None:
        """`name` is for messages. Without `dead_letters` a signal is tried again until it is delivered, without a limit."""
        if tries < 1:
            raise InvalidParameter(f"tries is {tries!r}; use a number that is at least 1.")
        self._name = name
        self._pattern = pattern_of(pattern)
        self._letters = None if dead_letters is None else LineFile(dead_letters)
        self._tries = tries
        self._clock = clock or SystemClock()
        self._failing = self._failures = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    def dead_letters(self, most: int) -> list[dict[str, Any]]:
        """The dead letters of this sink, newest first, at most `most`. Blocks, because it reads a file."""
        return [] if self._letters is None else self._letters.newest(most)

    def wanted(self, signal: StatusSignal) -> Event | None:
        """The event of a signal; None if the pattern does not want it."""
        event = event_of(signal)
        return event if self._pattern is None or self._pattern.matches(event) else None

    def failed(self, signal: StatusSignal, event: Event, error: DeliveryFailed) -> None:
        """Raise the error, so that the engine delivers the signal again. After the last try, if there is a file for dead letters, write a
        dead letter instead. Blocks."""
        self._failures = self._failures + 1 if signal.number == self._failing else 1
        self._failing = signal.number
        if self._letters is None or self._failures < self._tries:
            raise error
        letter = {"sink": self._name, "number": signal.number, "tries": self._failures, "error": str(error)}
        self._letters.append(letter | {"at": self._clock.now(), "event": event})
        log.warning("signal %s is given up after %s tries, and kept in %s: %s", signal.number, self._failures, self._letters.path, error)


class JsonLines:
    """A sink that writes events to a file, one JSON object in each line."""

    def __init__(
        self, path: str | os.PathLike[str], *, pattern: Wanted = None, max_bytes: int | None = 64 * 1024 * 1024, keep: int = 5
    ) -> None:
        """`max_bytes` and `keep`: a file that would become larger than `max_bytes` is renamed, as `LineFile` describes."""
        self._file = LineFile(path, max_bytes=max_bytes, keep=keep)
        self._pattern = pattern_of(pattern)

    def __repr__(self) -> str:
        return f"JsonLines({self._file.path})"

    def __call__(self, signal: StatusSignal) -> None:
        """Write the event of a signal, if the pattern wants it; the line is on disk when this returns. Blocks. Raises DeliveryFailed if it
        cannot be written."""
        event = event_of(signal)
        if self._pattern is None or self._pattern.matches(event):
            self._file.append(event)
