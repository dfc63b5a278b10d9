"""Metrics of schedules for Prometheus: how many occurrences were started, late, skipped, missed and refused; how late the latest start was;
for how long a schedule is overdue.

The process that decided about an occurrence counts it, after the decision is on disk. For how long a schedule is overdue is read from the
store each time the metrics are asked for, so all processes of a store show the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.schedules import ScheduleState
from holdfast.signals.series import MOST_SERIES, Onlooker, Series, family

_LATE_MS: Final = 60_000
_COUNTS: Final = {
    "started": ("schedule_started_count", "Occurrences that this process started."),
    "late": (
        "schedule_late_count",
        "Occurrences that this process started more than a minute late: no runner was there, or the one before was still running.",
    ),
    "skipped": ("schedule_skipped_count", "Occurrences that this process skipped or replaced because the one before was still running."),
    "missed": ("schedule_missed_count", "Occurrences that no runner could start in time, and that are not started later."),
    "refused": ("schedule_refused_count", "Occurrences that could not be started: their inputs do not fit, or a limit is reached."),
}
_KINDS: Final = {"started": "started", "skipped": "skipped", "replaced": "skipped", "missed": "missed", "refused": "refused"}


class ScheduleMetrics(Onlooker):
    """Counts the occurrences of schedules in one process, as an observer of its engine."""

    def __init__(self) -> None:
        self._counts = {kind: Series() for kind in _COUNTS}
        self._lag = Series()
        self.states: Callable[[], Iterable[ScheduleState]] = tuple
        """Reads the schedules of the store."""
        self.now: Callable[[], int] = lambda: 0

    def occurred(self, schedule: str, outcome: str, count: int, late_ms: int | None) -> None:
        """Count `count` occurrences of a schedule about which this process decided. `outcome` is the decision; `found` (its execution
        existed already) is not counted. `late_ms`: how many milliseconds late a started occurrence began; None for any other outcome."""
        kind = _KINDS.get(outcome)
        if kind is not None:
            self._counts[kind].add(schedule, count)
        if late_ms is not None:
            self._lag.set(schedule, max(late_ms, 0) / 1000)
            if late_ms > _LATE_MS:
                self._counts["late"].add(schedule, count)

    def text(self) -> str:
        """All metrics of this class in Prometheus's text format. Blocks, because it reads the store. If the store cannot be read,
        `schedule_overdue_seconds` has no values; the others are complete."""
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for kind, (name, what) in _COUNTS.items():
            yield from family(name, what, "counter", "schedule", self._counts[kind].values())
        told = "How many seconds too late the last occurrence began that this process started."
        yield from family("schedule_lag_seconds", told, "gauge", "schedule", self._lag.values())
        told = "For how many seconds the schedule has been due and no runner has handled it."
        yield from family("schedule_overdue_seconds", told, "gauge", "schedule", self._overdue())

    def _overdue(self) -> dict[str, float]:
        try:
            found = list(islice(self.states(), MOST_SERIES))
        except HoldfastError:  # if the store cannot be read now, the series read from it are left out
            return {}
        now = self.now()
        # An occurrence that an operator asked for is due now, not since the time of the schedule.
        return {state.name: 0.0 if state.asked or state.next_at is None else max(now - state.next_at, 0) / 1000 for state in found}
