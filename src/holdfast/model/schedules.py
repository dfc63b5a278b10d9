"""Schedules: what starts at which time, on which terms, and how far a schedule has come.

A schedule's `cursor` is the moment up to which all its occurrences are handled. One write starts an occurrence and moves the cursor
(`verbs.Start.moved`); the store refuses the write if the schedule has changed since it was read. The cursor never goes back, so an
occurrence that the timing makes due is never handled twice; those that operators ask for are kept in `asked`. schedule_steps.py decides
what to do next with a schedule.

Times and moments are in milliseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.model import codec, json_structs
from holdfast.model.history import SCHEDULE
from holdfast.model.ids import checked_function
from holdfast.model.operations import Word
from holdfast.model.schedule_errors import ScheduleInvalid
from holdfast.model.schedule_times import Timing, after, checked, delay_of

MAX_INPUT: Final = 256 * 1024
MAX_CATCH_UP: Final = 100
USUAL_CATCH_UP: Final = 10
MAX_WAITING: Final = 100
"""At most this many occurrences of one schedule wait until an earlier one has ended; further ones are skipped."""
MAX_ASKED: Final = 1000
"""Operators may ask for extra occurrences of a schedule. At most this many of them, for one schedule, may wait for a runner to start
them."""
_MAX_OPEN: Final = 100
_MAX_RECENT: Final = 10
_MAX_HISTORY: Final = 100
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_VERSION: Final = re.compile(r"[a-zA-Z0-9_.$+-]{1,64}")


class Overlap(Word):
    """What happens to an occurrence that is due while an earlier one still runs."""

    SKIP = "skip"
    """It is not started."""
    QUEUE = "queue"
    """It waits until the earlier one has ended."""
    REPLACE = "replace"
    """The earlier one is stopped, and then this one begins."""
    ALLOW = "allow"
    """It begins at once, beside the earlier one."""


class CatchUp(Word):
    """What happens to occurrences that no runner could start in time."""

    LATEST = "latest"
    """Of these occurrences, only the one that was due last is started, late. If the occurrence after it is due already, too, none of them
    is started."""
    ALL = "all"
    """They are started late. If they are more than `catch_up_most`, only those that were due last are started."""
    NONE = "none"
    """None of them is started."""


class Origin(Word):
    """Where the present definition of a schedule comes from: where it was declared, or where an operator added or changed it last."""

    CODE = "code"
    PAGE = "page"
    TOML = "toml"
    CLI = "cli"
    HTTP = "http"


DECLARED: Final = frozenset({Origin.CODE, Origin.PAGE, Origin.TOML})
"""The origins that are declarations. Each process declares its schedules again when it starts; this does not undo an operator's change."""


class How(Word):
    """Why there is an occurrence: its time came, or an operator asked for it."""

    DUE = "due"
    """It was due by the schedule's timing."""
    NOW = "now"
    """An operator asked for an extra occurrence."""
    BACKFILL = "backfill"
    """An operator asked for the occurrences of a time in the past."""


class Occurrence(msgspec.Struct, frozen=True):
    """One occurrence of a schedule, as the first event of its execution records it."""

    schedule: str
    at: int
    how: How = How.DUE


def occurrence_in(detail: Mapping[str, Any] | None) -> Occurrence | None:
    """The occurrence that the detail of an execution's first event records; None if no schedule started the execution, or if the record
    cannot be read."""
    marked = (detail or {}).get(SCHEDULE)
    if marked is None:
        return None
    try:
        return json_structs.converted(marked, Occurrence)
    except msgspec.ValidationError:  # an imported copy may have a record of another form
        return None


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule starts, when, and what happens to occurrences that cannot be started in time."""

    function: str
    """The name of a function, a worker or a pipeline. The runner that hosts it knows which of these it is."""
    version: str | None = None
    """The version to start. None: for a function, `$LATEST`, else the highest version that the runner hosts; for a worker or a pipeline,
    the version that the runner registered last."""
    tenant: str | None = None
    """The tenant that the schedule belongs to; None: no tenant."""
    timing: Timing
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_most: int = USUAL_CATCH_UP
    """With `CatchUp.ALL`: at most this many missed occurrences are started late; if there are more, those that were due last."""


class Counted(msgspec.Struct, frozen=True):
    """A timing, and the moment from which it was in force."""

    since: int
    timing: Timing


class Handled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an occurrence was handled."""

    at: int
    """When it was due."""
    outcome: str
    """One of these words: started, found (its execution existed already), skipped, replaced (a newer occurrence took its place before it
    began), missed, refused."""
    execution: str | None = None
    """The execution that was started or found; for a skipped occurrence, an execution of an earlier occurrence that still ran. None for the
    other outcomes."""
    why: str | None = None
    """Why the occurrence was not started; None if it was started."""
    how: How = How.DUE
    since: int | None = None
    """One line may stand for several missed occurrences: then this is when the first of them was due, and `at` is when the last of them was
    due. None if the line stands for one occurrence."""


class OccurrenceRequest(msgspec.Struct, frozen=True):
    """An occurrence to start, and why."""

    at: int
    """When it is due."""
    how: How
    by: str | None = None
    """The operator who asked for this occurrence. None if the operator is not known, or if no operator asked: the occurrence is due by the
    schedule's timing."""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule as the store keeps it."""

    name: str
    definition: Definition
    input: str
    """JSON: the input of a function, or the inputs of a worker."""
    origin: Origin
    cursor: int
    """All occurrences up to this moment are handled. It never goes back."""
    next_at: int | None = None
    """When a runner must look at the schedule next, because an occurrence is due or an operator asked for one. None: no such time, because
    the schedule is removed, or because it is paused or its timing has no occurrence left, and no operator asked for an occurrence.
    Occurrences in `waiting` do not change it."""
    revision: int = 1
    created_at: int = 0
    paused: bool = False
    paused_by: str | None = None
    """The operator who paused it; None if it is not paused, or the operator is not known."""
    removed: bool = False
    """Whether an operator removed the schedule. Its declaration (in code, on a page or in holdfast.toml) does not bring it back."""
    changed_by: str | None = None
    """The operator who last added, changed or removed the schedule. What this operator set wins over the declaration. None if no operator
    did any of this, or if the operator who added the schedule is not known."""
    changed_at: int | None = None
    """When the operator in `changed_by` added, changed or removed the schedule; None if `changed_by` is None."""
    declared: Definition | None = None
    """The declared definition that is not in force, because an operator changed or removed the schedule. None if the declaration is in
    force or equal to what the operator set, and if an operator removed an unchanged schedule, until a process declares it again."""
    declared_origin: Origin | None = None
    """The origin of `declared`; None if that is None."""
    history: tuple[Counted, ...] = ()
    """The timings that the schedule has had, with the present one, each with the moment from which it was in force. The oldest is first; of
    more than 100, the oldest are dropped."""
    waiting: tuple[int, ...] = ()
    """The due times of occurrences that wait until earlier ones have ended."""
    asked: tuple[OccurrenceRequest, ...] = ()
    """The occurrences that operators asked for and that no runner has started yet."""
    open: tuple[str, ...] = ()
    """The ids of executions that the schedule started and that may still run, in the order of their start. At most 100: of more, the oldest
    are dropped. Executions of a backfill are never in it."""
    recent: tuple[Handled, ...] = ()
    """How the most recent occurrences were handled, the one that was handled last first. The length of the list is bounded."""

    @property
    def waits(self) -> bool:
        """Whether an occurrence waits until earlier executions of the schedule have ended. Always False for a paused or removed
        schedule."""
        return bool(self.waiting) and not self.paused and not self.removed


def checked_schedule_name(name: object) -> str:
    """The name itself. Raises ScheduleInvalid if it is not the name of a schedule: it is a part of the names of executions."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ScheduleInvalid(f"Schedule name {name!r:.80}: use 1 to 40 letters, digits, '-' or '_'.")
    return name


def checked_definition(definition: Definition) -> Definition:
    """The definition. If it has a cron expression, that expression has one space between its fields in the result. Raises InvalidParameter
    if the name of the function is not allowed, and ScheduleInvalid if another part is not."""
    checked_function(definition.function)
    if definition.version is not None and not _VERSION.fullmatch(definition.version):
        raise ScheduleInvalid(f"The version of a schedule is {definition.version!r:.80}; use 1 to 64 letters, digits or any of _ . $ + -")
    if definition.tenant is not None and (not definition.tenant.isprintable() or not 0 < len(definition.tenant) <= 256):
        raise ScheduleInvalid("The tenant of a schedule must have 1 to 256 printable characters.")
    most = definition.catch_up_most
    if type(most) is not int or not 1 <= most <= MAX_CATCH_UP:
        raise ScheduleInvalid(f"catch-up: the number of missed occurrences to start is {most!r:.50}; write 1 to {MAX_CATCH_UP}.")
    if definition.catch_up is CatchUp.ALL and definition.overlap in (Overlap.SKIP, Overlap.REPLACE):
        raise ScheduleInvalid(
            f"catch-up 'all' needs overlap 'queue' or 'allow': with {definition.overlap.value!r} only one of the missed occurrences "
            "would run."
        )
    return msgspec.structs.replace(definition, timing=checked(definition.timing))


def checked_input(text: str) -> str:
    """The text of a schedule's input, returned unchanged. Raises PayloadNotJson if it is not JSON, and ScheduleInvalid if it is too
    large."""
    codec.check(text)
    if len(codec.storable(text).encode()) > MAX_INPUT:
        raise ScheduleInvalid(
            f"The input of a schedule may have at most {MAX_INPUT:,} bytes. Store larger data elsewhere, and put its address here."
        )
    return text


def new_schedule(name: str, definition: Definition, input: str, *, origin: Origin, now: int, by: str | None = None) -> ScheduleState:
    """A new schedule. It begins at `now`: its first occurrence is after `now`. `by` is the operator who adds it; None for a declaration, or
    if the operator is not known. Raises ScheduleInvalid, InvalidParameter or PayloadNotJson if a part of it is not allowed."""
    definition = checked_definition(definition)
    made = ScheduleState(
        name=checked_schedule_name(name),
        definition=definition,
        input=checked_input(input),
        origin=origin,
        cursor=now,
        created_at=now,
        history=(Counted(now, definition.timing),),
        changed_by=by,
        changed_at=None if by is None else now,
    )
    return planned(made)


def planned(state: ScheduleState) -> ScheduleState:
    """The schedule with a new `next_at`. If an operator asked for an occurrence, `next_at` is in the past, so that a runner looks at the
    schedule at once."""
    if state.removed:
        next_at = None
    elif state.asked:
        next_at = state.cursor
    elif state.paused:
        next_at = None
    else:
        at = after(state.definition.timing, state.cursor)
        next_at = None if at is None else at + delay_of(state.definition.timing, state.name, at)
    return msgspec.structs.replace(state, next_at=next_at)


def changed(state: ScheduleState, **values: object) -> ScheduleState:
    """The schedule with `values` as the new values of its members, with the next revision, and with a new `next_at`. The lists `recent`,
    `open` and `history` are cut to their greatest lengths."""
    after = msgspec.structs.replace(state, revision=state.revision + 1, **values)
    bounded = {"recent": bounded_recent(after.recent), "open": bounded_open(after.open), "history": after.history[-_MAX_HISTORY:]}
    return planned(msgspec.structs.replace(after, **bounded))


def bounded_recent(lines: tuple[Handled, ...]) -> tuple[Handled, ...]:
    """The lines that a schedule keeps: the first of `lines`, which are the newest."""
    return lines[:_MAX_RECENT]


def bounded_open(executions: tuple[str, ...]) -> tuple[str, ...]:
    """The open executions that a schedule keeps: the last of `executions`, which were started last. No occurrence waits for the executions
    that are left out."""
    return executions[-_MAX_OPEN:]


def handled(state: ScheduleState, *lines: Handled) -> tuple[Handled, ...]:
    """The list `recent` of the schedule, with `lines` added at its beginning."""
    return (*lines, *state.recent)


def upcoming(state: ScheduleState, now: int, most: int) -> Iterator[int]:
    """The occurrences after `now` that are not handled yet, the earliest first, at most `most`. Whether the schedule is paused makes no
    difference."""
    at = max(now, state.cursor)
    for _ in range(most):
        found = after(state.definition.timing, at)
        if found is None:
            return
        yield found
        at = found


def stamp(at: int) -> str:
    """A moment as it is written in the name of an execution, in UTC: `20261101T020000Z`. Milliseconds follow the seconds if they are not
    0."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    part = f"{at % 1000:03d}" if at % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{part}Z"


def execution_name(occurrence: Occurrence) -> str:
    """A name for an occurrence, the same in every process: the execution of a function has it, and the idempotency key of a worker's or a
    pipeline's run contains it. It contains the time at which the occurrence is due, so that a backfill finds what was started before."""
    now = "now-" if occurrence.how is How.NOW else ""
    return f"{occurrence.schedule}-{now}{stamp(occurrence.at)}"
