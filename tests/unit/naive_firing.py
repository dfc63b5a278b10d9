"""What a schedule must start, from a list of all its occurrences: a naive model for every policy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from holdfast.model.schedule_times import ClockChanges, occurrences
from holdfast.model.schedules import CatchUp, Definition, Overlap
from tests.unit.calendars import MINUTE

POLICIES = [
    (overlap, catch_up, clock)
    for overlap, catch_up, clock in product(Overlap, CatchUp, ClockChanges)
    if catch_up is not CatchUp.ALL or overlap in (Overlap.QUEUE, Overlap.ALLOW)
]


def naive(
    definition: Definition, takes: int, downs: list[tuple[int, int]], begin: int, end: int, *, ends_late: bool = False
) -> list[tuple[int, int]]:
    """What must be started, and when. Occurrences lie at least an hour apart.

    `ends_late`: a run that no runner could go on with during a downtime is still open at the moment at which the downtime ends.
    """
    handled: list[tuple[int, int]] = []
    for at in occurrences(definition.timing, begin):
        if at >= end:
            break
        handled.append((at, next((up for down, up in downs if down <= at < up), at)))
    due: list[tuple[int, int]] = []
    for seen in sorted({when for _, when in handled}):
        group = [at for at, when in handled if when == seen]
        missed = [at for at in group if at < seen - MINUTE]
        on_time = [at for at in group if at >= seen - MINUTE]
        kept = {CatchUp.NONE: [], CatchUp.LATEST: [] if on_time else missed[-1:], CatchUp.ALL: missed[-definition.catch_up_most :]}
        due += [(at, seen) for at in (*kept[definition.catch_up], *on_time)]
    wanted = [(at, seen) for at, seen in due if seen < end]
    return list(_overlapping(definition.overlap, wanted, takes, downs, end, ends_late=ends_late))


def _overlapping(
    overlap: Overlap, due: list[tuple[int, int]], takes: int, downs: list[tuple[int, int]], end: int, *, ends_late: bool
) -> Iterator[tuple[int, int]]:
    free_at = 0
    for at, seen in due:
        match overlap:
            case Overlap.ALLOW:
                yield at, seen
            case Overlap.SKIP:
                if seen >= free_at:
                    free_at = seen + takes
                    if ends_late:
                        free_at = next((up + 1 for down, up in downs if down <= free_at < up), free_at)
                    yield at, seen
            case Overlap.REPLACE:
                yield at, seen
            case Overlap.QUEUE:
                begins = max(seen, free_at)
                begins = next((up for down, up in downs if down <= begins < up), begins)
                if begins < end:
                    free_at = begins + takes
                    yield at, begins
