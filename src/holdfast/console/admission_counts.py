"""How many runs each queue admitted in the last five minutes, as far as this console has seen it.

The store has only the total number of admissions of a queue. The console reads that number when a page shows the queue. The difference
between two readings is the number of admissions between them.

The time is cut into spans of ten seconds. If no page showed a queue for a while, all its admissions of that time are counted in the span of
the next reading.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from itertools import pairwise
from typing import Final

SPAN_MS: Final = 10_000
SPANS: Final = 30
"""How many spans of ten seconds are kept: five minutes together."""
_MOST_QUEUES: Final = 1000


class AdmissionCounts:
    """The admissions of each queue, counted for each span of ten seconds. Several threads may use one object."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()
        self._lock = threading.Lock()
        self.since: int | None = None
        """When this console read a queue for the first time, in milliseconds; None before that."""

    def look(self, queue: str, admitted: int, now: int) -> tuple[int, ...]:
        """Remember `admitted`, the total number of admissions of a queue at the time `now` (milliseconds). Return how many admissions this
        console counted in each of the last SPANS spans, the newest span last. A span without a reading has 0."""
        span = now // SPAN_MS
        with self._lock:
            self.since = now if self.since is None else self.since
            looks = self._seen.setdefault(queue, deque(maxlen=SPANS + 1))
            self._seen.move_to_end(queue)
            if len(self._seen) > _MOST_QUEUES:
                self._seen.popitem(last=False)
            if looks and admitted < looks[-1][1]:  # the total went back: another store is at this place now
                looks.clear()
            if looks and looks[-1][0] == span and len(looks) > 1:
                looks.pop()
            looks.append((span, admitted))
            return _by_span(list(looks), span)


def _by_span(looks: list[tuple[int, int]], span: int) -> tuple[int, ...]:
    counts = [0] * SPANS
    for (_, before), (at, after) in pairwise(looks):
        place = SPANS - 1 - (span - at)
        if place >= 0:
            counts[place] += after - before
    return tuple(counts)
