"""Steps of a schedule: what to do next with it. One step is computed from the schedule, the time and the schedule's open executions.

A step starts at most one occurrence. A runner writes steps until there is none left. The store refuses a step if the schedule's revision
has changed, so that two runners never write the same step.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from holdfast.model.schedule_times import after, delay_of, newest
from holdfast.model.schedules import (
    MAX_WAITING,
    CatchUp,
    Counted,
    Handled,
    How,
    OccurrenceRequest,
    Overlap,
    ScheduleState,
    bounded_open,
    bounded_recent,
    changed,
    handled,
)

_SECOND: Final = 1000
_GRACE_MS: Final = 60_000
"""An occurrence is missed if no runner has started it within its grace, plus the jitter. The grace is this many milliseconds, or half of
the time between two occurrences if that is shorter; but it is at least one second."""


class ScheduleStep(msgspec.Struct, frozen=True):
    """One write: the schedule as it is after the write (`after`), and the occurrence that the write starts."""

    after: ScheduleState
    start: OccurrenceRequest | None = None
    """The occurrence to start; None if the write only changes the schedule."""


def due_step(state: ScheduleState, now: int, still_open: Collection[str]) -> ScheduleStep | None:
    """The next step of a schedule; None if there is nothing to do at `now`. `still_open` has those executions of `state.open` that have not
    ended. With `Overlap.ALLOW` it may have all of them, because no occurrence waits for another."""
    if state.removed:
        return None
    if state.asked:
        return ScheduleStep(changed(state, asked=state.asked[1:]), state.asked[0])
    if state.paused:
        return None
    state = msgspec.structs.replace(state, open=tuple(execution for execution in state.open if execution in still_open))
    busy = bool(state.open) and state.definition.overlap is not Overlap.ALLOW
    if state.waiting and not busy:
        return ScheduleStep(changed(state, waiting=state.waiting[1:]), OccurrenceRequest(state.waiting[0], How.DUE))
    found = _due(state, now)
    if found is None:
        return None
    at, missed = found
    if at is None:
        return ScheduleStep(changed(state, cursor=_passed(state, now), recent=handled(state, *missed)))
    if not busy:
        return ScheduleStep(changed(state, cursor=at, recent=handled(state, *missed)), OccurrenceRequest(at, How.DUE))
    return ScheduleStep(_held_up(state, at, missed))


def begun(step: ScheduleStep, execution: str) -> ScheduleState:
    """The schedule as it is after the write that starts the step's occurrence. `execution` is the id of the execution that the write
    makes."""
    assert step.start is not None
    state, asked = step.after, step.start
    line = Handled(at=asked.at, outcome="started", execution=execution, how=asked.how)
    # The execution of a backfill is not in `open`: no other occurrence waits for it.
    running = state.open if asked.how is How.BACKFILL else (*state.open, execution)
    return msgspec.structs.replace(state, open=bounded_open(running), recent=bounded_recent(handled(state, line)))


def passed_over(step: ScheduleStep, outcome: str, why: str, execution: str | None = None) -> ScheduleState:
    """The schedule as it is after a write that does not start the step's occurrence: it cannot be started, or it was started before. The
    schedule records `outcome`, `why` and `execution`, which is the earlier execution of the occurrence (None if there is none)."""
    assert step.start is not None
    line = Handled(at=step.start.at, outcome=outcome, how=step.start.how, why=why[:300], execution=execution)
    return msgspec.structs.replace(step.after, recent=bounded_recent(handled(step.after, line)))


def _held_up(state: ScheduleState, at: int, missed: list[Handled]) -> ScheduleState:
    """The schedule as it is after the step for an occurrence that is due at `at` while an earlier one still runs: by the overlap policy,
    the occurrence waits, waits in place of those that waited before (REPLACE), or is skipped. `missed` has the occurrences before it that
    were missed; they are recorded too."""
    former = state.open[-1]
    match state.definition.overlap:
        case Overlap.QUEUE if len(state.waiting) < MAX_WAITING:
            return changed(state, cursor=at, recent=handled(state, *missed), waiting=(*state.waiting, at))
        case Overlap.REPLACE:
            lost = [Handled(at=was, outcome="replaced", why="A newer occurrence was due before it began.") for was in state.waiting]
            return changed(state, cursor=at, recent=handled(state, *lost, *missed), waiting=(at,))
        case Overlap.QUEUE:
            why = f"{MAX_WAITING} occurrences were waiting already."
        case _:
            why = "The occurrence before it was still running."
    return changed(state, cursor=at, recent=handled(state, Handled(at=at, outcome="skipped", why=why, execution=former), *missed))


def _due(state: ScheduleState, now: int) -> tuple[int | None, list[Handled]] | None:
    """What is due: the time of the occurrence to start, and a record of the missed ones before it, which are not started. The time is None
    if this step only records missed ones; another occurrence may be due after them. None instead of the pair if nothing is due yet."""
    timing, definition = state.definition.timing, state.definition
    first = after(timing, state.cursor)
    if first is None or first + delay_of(timing, state.name, first) > now:
        return None
    bound = _passed(state, now)
    if first > bound:
        return first, []
    kept = _made_up(state, bound)
    if definition.catch_up is CatchUp.LATEST:
        next_one = after(timing, bound)
        if next_one is not None and next_one + delay_of(timing, state.name, next_one) <= now:
            return next_one, [_missed(first, newest(timing, state.cursor, bound, 1)[-1])]
    if not kept:
        return None, [_missed(first, newest(timing, state.cursor, bound, 1)[-1])]
    before = newest(timing, state.cursor, kept[0] - 1, 1)
    return kept[0], [_missed(first, before[-1])] if before else []


def _made_up(state: ScheduleState, bound: int) -> list[int]:
    """The missed occurrences up to `bound` that the catch-up policy still starts, the oldest first."""
    definition = state.definition
    most = {CatchUp.NONE: 0, CatchUp.LATEST: 1, CatchUp.ALL: definition.catch_up_most}[definition.catch_up]
    return newest(definition.timing, state.cursor, bound, most)


def _passed(state: ScheduleState, now: int) -> int:
    """The time up to which occurrences count as missed at `now`: the time in which a runner may still start them (their grace, `_GRACE_MS`,
    and the jitter) is over."""
    timing = state.definition.timing
    first = after(timing, state.cursor)
    second = None if first is None else after(timing, first)
    gap = _GRACE_MS * 2 if first is None or second is None else second - first
    grace = max(_SECOND, min(_GRACE_MS, gap // 2))
    return max(state.cursor, now - grace - timing.jitter * 1000 - 1)


def _missed(first: int, last: int) -> Handled:
    return Handled(at=last, outcome="missed", since=first if first < last else None, why="No runner could start it in time.")


# --- changes by people and declarations


def retimed(state: ScheduleState, now: int) -> ScheduleState:
    """The schedule, prepared for a new timing that will be in force from `now` on. The new timing has no occurrences before `now`.
    Occurrences of the old timing that were due before `now`, and are not handled yet, are put into `waiting` as far as the catch-up policy,
    the overlap policy and MAX_WAITING allow it. The others are dropped; if the schedule is paused or removed, all are dropped."""
    if state.paused or state.removed:
        return msgspec.structs.replace(state, cursor=max(state.cursor, now))
    made_up = [at for at in _made_up(state, now) if at + delay_of(state.definition.timing, state.name, at) <= now]
    waiting = (*state.waiting, *made_up)[:MAX_WAITING]
    if state.definition.overlap is Overlap.REPLACE:
        waiting = waiting[-1:]
    return msgspec.structs.replace(state, cursor=max(state.cursor, now), waiting=waiting)


def resumed(state: ScheduleState, now: int, *, catch_up: bool) -> ScheduleState:
    """The schedule after its pause ends. Without `catch_up`, occurrences that were due during the pause are not started, nor are those that
    waited for an earlier one. With `catch_up`, the schedule's catch-up policy decides about those that were due during the pause, and those
    that waited still wait."""
    if catch_up:
        return changed(state, paused=False)
    return changed(state, paused=False, cursor=max(state.cursor, now), waiting=())


def due_between(history: tuple[Counted, ...], begin: int, end: int, most: int) -> list[int]:
    """The occurrences that were due from `begin` on and before `end`, each by the timing that was in force when it was due. For times
    before the first timing in `history`, the first timing is used. At most `most` + 1 are returned; if it is `most` + 1, the caller knows
    that there are more than `most`."""
    found: list[int] = []
    for place, counted in enumerate(history):
        since = begin if place == 0 else max(begin, counted.since)
        until = end if place == len(history) - 1 else min(end, history[place + 1].since)
        at = after(counted.timing, since - 1)
        while at is not None and at < until:
            if len(found) > most:
                return found
            found.append(at)
            at = after(counted.timing, at)
    return found
