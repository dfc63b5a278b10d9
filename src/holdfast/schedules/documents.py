"""Schedules in words and as JSON objects, the same for the command line and for HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.model import codec
from holdfast.model.durations import duration_of
from holdfast.model.schedule_times import Timing, in_words, zone_of
from holdfast.model.schedules import CatchUp, Definition, Handled, ScheduleState, upcoming

SHOWN_TIMES = 5


def described(state: ScheduleState, now: int, *, times: int = SHOWN_TIMES) -> dict[str, Any]:
    """Everything about a schedule, as a JSON object, with at most `times` of its next occurrences."""
    told: dict[str, Any] = {
        "name": state.name,
        **definition_told(state.definition),
        "input": codec.loads(state.input),
        "words": in_words(state.definition.timing),
        "origin": state.origin.value,
        "paused": state.paused,
        "next": [iso(at) for at in next_times(state, now, times)],
        "handled_until": iso(state.cursor),
        "waiting": [iso(at) for at in state.waiting],
        "asked_for": len(state.asked),
        "recent": [_handled(line) for line in state.recent],
        "expressions": [{"since": iso(counted.since), **_timing(counted.timing)} for counted in state.history],
        "revision": state.revision,
    }
    if state.paused_by is not None:
        told["paused_by"] = state.paused_by
    if state.changed_by is not None:
        told |= {"changed_by": state.changed_by, "changed_at": iso(state.changed_at)}
    if state.declared is not None:
        told["declared"] = {**definition_told(state.declared), "origin": state.declared_origin}
    return told


def definition_told(definition: Definition) -> dict[str, Any]:
    """A definition as a JSON object, with the names and forms in which people write a schedule."""
    catch_up = definition.catch_up.value
    if definition.catch_up is CatchUp.ALL:
        catch_up = f"all:{definition.catch_up_most}"
    target = {"run": definition.function, "version": definition.version, "tenant": definition.tenant}
    return {**target, **_timing(definition.timing), "overlap": definition.overlap.value, "catch_up": catch_up}


def _timing(timing: Timing) -> dict[str, Any]:
    told: dict[str, Any] = {"every": duration_of(timing.every)} if timing.every is not None else {"cron": timing.cron, "zone": timing.zone}
    if timing.every is None:
        told["clock"] = timing.clock.value
    if timing.jitter:
        told["jitter"] = duration_of(timing.jitter)
    return told | {name: iso(at) for name, at in (("start", timing.start), ("end", timing.end)) if at is not None}


def _handled(line: Handled) -> dict[str, Any]:
    told: dict[str, Any] = {"at": iso(line.at), "outcome": line.outcome, "how": line.how.value}
    more = {"execution": line.execution, "why": line.why, "since": iso(line.since)}
    return told | {key: value for key, value in more.items() if value is not None}


def next_times(state: ScheduleState, now: int, most: int) -> list[int]:
    """The times of the next occurrences after `now`, at most `most`; empty if the schedule is paused or removed."""
    return [] if state.paused or state.removed else list(upcoming(state, now, most))


def in_zone(at: int, timing: Timing) -> str:
    """A moment in the time zone of the schedule: `Mon 30 Mar 2026 02:00 CEST`."""
    moment = datetime.fromtimestamp(at // 1000, zone_of(timing.zone))
    return f"{moment:%a %d %b %Y %H:%M}{f':{moment:%S}' if moment.second else ''} {moment:%Z}"


def expression(timing: Timing) -> str:
    """When the schedule is due, on one line: `every 2h`, or the cron expression and the zone."""
    return f"every {duration_of(timing.every)}" if timing.every is not None else f"{timing.cron} {timing.zone}"


def iso(at: int | None) -> str | None:
    """A time in ISO 8601, in UTC, from milliseconds since 1970-01-01 UTC; None for None."""
    if at is None:
        return None
    part = "milliseconds" if at % 1000 else "seconds"
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec=part).replace("+00:00", "Z")
