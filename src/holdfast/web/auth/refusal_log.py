"""The log of refusals, a part of the audit log. No reply waits for it, and its size is limited, also with very many refusals.

The first refusal of its kind in a minute is written within about a second. Further refusals of the same kind (who, what, from where,
outcome, tenant) are counted, and written as one line after the minute. If a minute has more than `per_minute` kinds, or a day more than
`per_day`, a further kind gets no line of its own: one line after the minute has the number of all such refusals. So a client which is
refused all day does not fill the disk. One address may use at most half of both numbers, so that it cannot keep the refusals of others out
of the log. If the store cannot write lines, the server tries again about every 10 seconds, and keeps at most 1,000 lines until then. It
counts the lines that it drops, and shows the count in its log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from holdfast.model.audit import Note, NoteKind
from holdfast.model.errors import HoldfastError
from holdfast.model.threads import Purpose, in_thread

log = logging.getLogger("holdfast.server")

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_SOON_SECONDS: Final = 1.0
_MOST_WAITING: Final = 1_000
MANY: Final = "(many)"
"""The name of the caller in a line that counts all refusals which got no line of their own."""


class Book(Protocol):
    """The method of a store that writes notes into the audit log."""

    def note(self, notes: Sequence[Note]) -> None: ...


class RefusalLog:
    """Counts refusals on the event loop, and writes them in a thread."""

    def __init__(self, book: Book, now: Callable[[], int], *, per_minute: int = 60, per_day: int = 5_000) -> None:
        self._book = book
        self._now = now
        self._per_minute = per_minute
        self._per_day = per_day
        self._minute = self._day = -1
        self._today = Counter[str]()
        """The number of kinds that got a line today, by address."""
        self._seen: dict[tuple[object, ...], Note] = {}
        """The kinds of this minute, each with its first refusal."""
        self._again: dict[tuple[object, ...], int] = {}
        self._others = 0
        self._last: Note | None = None
        self._waiting: list[Note] = []
        self.dropped = 0
        """The number of lines that were dropped since the server's log showed this number last: too many waited, or they could not be
        written."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, note: Note) -> None:
        """Count a refusal. A timer writes the lines later. Does not block, and takes the same short time however many refusals
        there are."""
        self._turn(note.at)
        kind = (note.who, note.what, note.origin, note.outcome, note.tenant)
        if kind in self._seen:
            self._again[kind] = self._again.get(kind, 0) + 1
        elif self._has_room(note.origin):
            self._seen[kind] = note
            self._today[note.origin] += 1
            self._keep(note)
        else:
            self._others += 1
            self._last = note
        self._hurry(_SOON_SECONDS)

    def _has_room(self, origin: str) -> bool:
        """Whether one more kind of refusal from this address may get a line of its own."""
        now = sum(note.origin == origin for note in self._seen.values())
        if max(2 * now, len(self._seen)) >= self._per_minute:
            return False
        return max(2 * self._today[origin], self._today.total()) < self._per_day

    async def close(self) -> None:
        """Stop the timer, and try once to write all lines that are not written yet."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await self._writing
        self._sum_up()
        if self._waiting:
            await self._write()

    def _turn(self, at: int) -> None:
        """If a new minute has begun, make lines of the counts of the minute before it, to be written later. If a new day has begun, count
        the lines of the day from 0 again."""
        minute, day = at // _MINUTE_MS, at // _DAY_MS
        if minute != self._minute:
            self._sum_up()
            self._minute = minute
        if day != self._day:
            self._day, self._today = day, Counter[str]()

    def _sum_up(self) -> None:
        for kind, times in self._again.items():
            self._keep(msgspec.structs.replace(self._seen[kind], times=times))
        if self._others and self._last is not None:
            last = self._last
            sum_of = Note(
                at=last.at,
                kind=NoteKind.REFUSAL,
                who=MANY,
                what="other refusals",
                outcome="not listed",
                times=self._others,
                expires_at=last.expires_at,
            )
            self._keep(sum_of)
        self._seen.clear()
        self._again.clear()
        self._others = 0

    def _keep(self, note: Note) -> None:
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(note)
        else:
            self.dropped += 1

    # --- writing, without delaying any answer

    def _hurry(self, seconds: float) -> None:
        if self._timer is None and not self._closed:  # the store may be closed after the log
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._turn(self._now())
        if self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(), name="holdfast-refusals")
        elif self._again or self._others:
            self._hurry(_SOON_SECONDS * 10)

    async def _write(self) -> None:
        notes, self._waiting = self._waiting, []
        try:
            await in_thread(Purpose.STORE, self._book.note, notes)
            if self.dropped:
                log.warning("%d lines about refusals are missing in the audit log: it could not be written for a while", self.dropped)
                self.dropped = 0
        except HoldfastError as trouble:
            again = "" if self._closed else ", trying again"
            log.warning("could not write %d lines about refusals into the audit log%s: %s", len(notes), again, trouble)
            room = _MOST_WAITING - len(self._waiting)
            self.dropped += max(0, len(notes) - room)
            self._waiting = notes[:room] + self._waiting
        except Exception as odd:  # these lines would fail again, and keep all others waiting behind them
            log.error("could not write %d lines about refusals into the audit log: %s", len(notes), type(odd).__name__)
            self.dropped += len(notes)
        if self._waiting or self._again or self._others:
            self._hurry(_SOON_SECONDS * 10)
