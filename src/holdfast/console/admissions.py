"""How many runs each queue admitted of late, as this console saw it: the store counts all admissions, and the console looks now and then.

Looks fall into spans of ten seconds. A queue that no page showed for a while shows its admissions in the span of the next look.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from itertools import pairwise
from typing import Final

SPAN_MS: Final = 10_000
SPANS: Final = 30
"""Five minutes in all."""
_MOST_QUEUES: Final = 1000


class Admissions:
    """The last spans of each queue. Threads may share it."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()
        self._lock = threading.Lock()
        self.since: int | None = None
        """When this console looked first."""

    def look(self, queue: str, admitted: int, now: int) -> tuple[int, ...]:
        """Keep what a queue has admitted in all, and answer its admissions by span, the newest last."""
        span = now // SPAN_MS
        with self._lock:
            self.since = now if self.since is None else self.since
            looks = self._seen.setdefault(queue, deque(maxlen=SPANS + 1))
            self._seen.move_to_end(queue)
            if len(self._seen) > _MOST_QUEUES:
                self._seen.popitem(last=False)
            if looks and admitted < looks[-1][1]:  # the queue was made anew
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
