"""Sinks: subscribers that send events to another system. A sink sends the events that its pattern wants. If it cannot deliver an event, it
raises DeliveryFailed. The engine's outbox then delivers the same signal again later, and the signals after it wait until then. If the sink
has a file for dead letters, it writes the event there after some failed tries, so that one event cannot delay all later ones for ever."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import DeliveryFailed, InvalidParameter
from holdfast.model.signals import StatusSignal
from holdfast.signals.event import EventBridgeEvent, event_of
from holdfast.signals.lines import LineFile
from holdfast.signals.patterns import Pattern

log = logging.getLogger("holdfast.signals")

Wanted = Pattern | Mapping[str, Any] | str | None
"""An event pattern, as a Pattern, as JSON text or as the value of that text; None means all events."""

_TRIES: Final = 10
"""The default of `tries`: after this many failed tries the event of a signal is written to the file for dead letters, if its sink has one.
With the delays of the outbox these tries take two to four minutes, and longer if the receiver answers slowly."""


def pattern_of(wanted: Wanted) -> Pattern | None:
    """`wanted` as a Pattern; None if all events are wanted. Raises PatternInvalid if the pattern is not valid."""
    return wanted if wanted is None or isinstance(wanted, Pattern) else Pattern(wanted)


class Sink:
    """The base class of sinks that send events over a network. It has the event pattern, and counts the failed tries of the signal that is
    being delivered."""

    def __init__(
        self,
        name: str,
        *,
        pattern: Wanted = None,
        dead_letters: str | os.PathLike[str] | None = None,
        tries: int = _TRIES,
        clock: Clock | None = None,
    ) -> None:
        """`name` is shown in messages. `pattern`: which events are sent; None means all. `dead_letters`: the path of the file for dead
        letters; None: there is no such file, and a signal is tried again without a limit until it is delivered. `tries`: after this many
        failed tries in this process, one after the other, the event is written to that file. `clock` None means the clock of this machine.
        Raises InvalidParameter if `tries` is below 1, and PatternInvalid if the pattern is not valid."""
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
        """The newest lines in the file for dead letters, the newest first: at most `most`, and only lines in the last 256 KiB of the file.
        Empty if the sink has no such file, or if the file cannot be opened. Blocks, because it reads the file."""
        return [] if self._letters is None else self._letters.newest(most)

    def wanted(self, signal: StatusSignal) -> EventBridgeEvent | None:
        """The event of a signal; None if the pattern does not want it."""
        event = event_of(signal)
        return event if self._pattern is None or self._pattern.matches(event) else None

    def failed(self, signal: StatusSignal, event: EventBridgeEvent, error: DeliveryFailed) -> None:
        """A subclass calls this after each failed try to deliver a signal. It raises `error`, so that the engine delivers the signal again
        later. But if the sink has a file for dead letters, and this was the try number `tries` of the same signal in this process, or a
        later one, it writes a dead letter and returns. Raises DeliveryFailed if the dead letter cannot be written. Blocks."""
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
        """`pattern`: which events are written; None means all. `max_bytes`: if a line would make the file larger than this, the file is
        first renamed to `path.1` (the old `path.1` to `path.2`, and so on), and a new file begins; None means no limit. `keep`: at most
        this many renamed files exist, and the oldest is overwritten; with 0 the full file is removed. Raises InvalidParameter if
        `max_bytes` is below 1 or `keep` is below 0, and PatternInvalid if the pattern is not valid."""
        self._file = LineFile(path, max_bytes=max_bytes, keep=keep)
        self._pattern = pattern_of(pattern)

    def __repr__(self) -> str:
        return f"JsonLines({self._file.path})"

    def __call__(self, signal: StatusSignal) -> None:
        """Write the event of a signal, if the pattern wants it; the line of the event is on disk when this returns. Blocks. Raises
        DeliveryFailed if the line cannot be written."""
        event = event_of(signal)
        if self._pattern is None or self._pattern.matches(event):
            self._file.append(event)
