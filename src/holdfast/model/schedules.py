"""Schedules: what starts at which time, on which terms, and how far a schedule has come.

A schedule's `cursor` is the moment up to which all its occurrences are handled. One write starts an occurrence and moves the cursor
(`verbs.Start.moved`); the store refuses it if the schedule's revision is another. The cursor never goes back, so an occurrence is never
handled twice. schedule_steps.py decides what to do next with a schedule.
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
from holdfast.model.timing import Timing, after, checked, delay_of

MAX_INPUT: Final = 256 * 1024
MAX_CATCH_UP: Final = 100
USUAL_CATCH_UP: Final = 10
MAX_WAITING: Final = 100
"""At most this many occurrences of one schedule wait for the one before; further ones are skipped."""
MAX_ASKED: Final = 1000
"""An operator can ask for at most this many occurrences of one schedule that no runner has started yet."""
_MAX_OPEN: Final = 100
_MAX_RECENT: Final = 10
_MAX_HISTORY: Final = 100
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_VERSION: Final = re.compile(r"[a-zA-Z0-9_.$+-]{1,64}")


class Overlap(Word):
    """What happens to an occurrence that is due while the one before still runs."""

    SKIP = "skip"
    QUEUE = "queue"
    """It waits until the one before has ended."""
    REPLACE = "replace"
    """The one before is stopped, and then this one begins."""
    ALLOW = "allow"


class CatchUp(Word):
    """What happens to occurrences that no runner could start in time."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Origin(Word):
    """Where a schedule was declared, or changed last."""

    CODE = "code"
    PAGE = "page"
    TOML = "toml"
    CLI = "cli"
    HTTP = "http"


DECLARED: Final = frozenset({Origin.CODE, Origin.PAGE, Origin.TOML})
"""The origins that are declarations. Each process repeats them when it starts, so an operator's change wins over them."""


class How(Word):
    """Why an occurrence was started."""

    DUE = "due"
    NOW = "now"
    """An operator asked for it."""
    BACKFILL = "backfill"


class Occurrence(msgspec.Struct, frozen=True):
    """One occurrence of a schedule: the mark of its execution."""

    schedule: str
    at: int
    how: How = How.DUE


def occurrence_in(detail: Mapping[str, Any] | None) -> Occurrence | None:
    """The occurrence that the first event of an execution is marked with; None for an execution that no schedule started."""
    marked = (detail or {}).get(SCHEDULE)
    if marked is None:
        return None
    try:
        return json_structs.converted(marked, Occurrence)
    except msgspec.ValidationError:  # a copy from another store may have other marks
        return None


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule starts, when, and what happens when that is not possible."""

    function: str
    """The name of a function, a worker or a pipeline. The runner that hosts it knows which of these it is."""
    version: str | None = None
    tenant: str | None = None
    timing: Timing
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_most: int = USUAL_CATCH_UP
    """With `all`: at most this many missed occurrences are started late, the newest ones."""


class Counted(msgspec.Struct, frozen=True):
    """A timing, and the moment from which it was in force."""

    since: int
    timing: Timing


class Handled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an occurrence was handled."""

    at: int
    outcome: str
    """started, waiting, skipped, replaced, missed or refused."""
    execution: str | None = None
    why: str | None = None
    how: How = How.DUE
    since: int | None = None
    """`missed`: the first of the occurrences that were missed; `at` is the last."""


class Asked(msgspec.Struct, frozen=True):
    """An occurrence that an operator asked for."""

    at: int
    how: How
    by: str | None = None
    """Who asked for it."""


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
    """When a runner must look at the schedule next; None if it is paused or over."""
    revision: int = 1
    created_at: int = 0
    paused: bool = False
    paused_by: str | None = None
    removed: bool = False
    """Whether an operator removed the schedule. Its declaration must not bring it back."""
    changed_by: str | None = None
    """The operator who changed the schedule last; that change wins over the declaration."""
    changed_at: int | None = None
    declared: Definition | None = None
    """The declared definition, if the operator has changed it."""
    declared_origin: Origin | None = None
    history: tuple[Counted, ...] = ()
    """Each timing with the moment from which it was in force, the oldest first."""
    waiting: tuple[int, ...] = ()
    """Occurrences that wait until those before have ended."""
    asked: tuple[Asked, ...] = ()
    open: tuple[str, ...] = ()
    """The executions that were started and may not have ended."""
    recent: tuple[Handled, ...] = ()
    """How the last occurrences were handled, the newest first."""

    @property
    def waits(self) -> bool:
        """Whether an occurrence waits for the end of an execution."""
        return bool(self.waiting) and not self.paused and not self.removed


def checked_schedule_name(name: object) -> str:
    """A schedule's name: short enough for the names of its executions."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ScheduleInvalid(f"Schedule name {name!r:.80}: use 1 to 40 letters, digits, '-' or '_'.")
    return name


def checked_definition(definition: Definition) -> Definition:
    """The definition in its plain form; one that a runner could not follow is refused."""
    checked_function(definition.function)
    if definition.version is not None and not _VERSION.fullmatch(definition.version):
        raise ScheduleInvalid(f"The version is {definition.version!r:.80}, which no function or worker has.")
    if definition.tenant is not None and (not definition.tenant.isprintable() or not 0 < len(definition.tenant) <= 256):
        raise ScheduleInvalid("A tenant is a printable text of at most 256 characters.")
    most = definition.catch_up_most
    if type(most) is not int or not 1 <= most <= MAX_CATCH_UP:
        raise ScheduleInvalid(f"catch-up: at most {most!r:.50} occurrences would be started late. Write 1 to {MAX_CATCH_UP}.")
    if definition.catch_up is CatchUp.ALL and definition.overlap in (Overlap.SKIP, Overlap.REPLACE):
        raise ScheduleInvalid(
            f"catch-up 'all' needs overlap 'queue' or 'allow': with {definition.overlap.value!r} only one of the missed occurrences "
            "would run."
        )
    return msgspec.structs.replace(definition, timing=checked(definition.timing))


def checked_input(text: str) -> str:
    """The input of a schedule, if it can be kept."""
    codec.check(text)
    if len(text.encode()) > MAX_INPUT:
        raise ScheduleInvalid(f"The input of a schedule may have {MAX_INPUT:,} bytes. Give it the address of larger data.")
    return codec.storable(text)


def new_schedule(name: str, definition: Definition, input: str, *, origin: Origin, now: int, by: str | None = None) -> ScheduleState:
    """A schedule that begins now. Nothing was due before now."""
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
    """The schedule with `next_at` set. If an operator asked for an occurrence, a runner looks at once."""
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
    """The schedule with other values, the next revision and a new `next_at`. Its lists are cut to their bounds."""
    after = msgspec.structs.replace(state, revision=state.revision + 1, **values)
    bounded = {"recent": bounded_recent(after.recent), "open": bounded_open(after.open), "history": after.history[-_MAX_HISTORY:]}
    return planned(msgspec.structs.replace(after, **bounded))


def bounded_recent(lines: tuple[Handled, ...]) -> tuple[Handled, ...]:
    """The lines that are kept."""
    return lines[:_MAX_RECENT]


def bounded_open(executions: tuple[str, ...]) -> tuple[str, ...]:
    """The newest of the open executions. If more overlap, the oldest are forgotten, and no occurrence waits for them."""
    return executions[-_MAX_OPEN:]


def handled(state: ScheduleState, *lines: Handled) -> tuple[Handled, ...]:
    """The list of handled occurrences, with these added at its beginning."""
    return (*lines, *state.recent)


def upcoming(state: ScheduleState, now: int, most: int) -> Iterator[int]:
    """The next occurrences, as far as they are known."""
    at = max(now, state.cursor)
    for _ in range(most):
        found = after(state.definition.timing, at)
        if found is None:
            return
        yield found
        at = found


def stamp(at: int) -> str:
    """A moment as it stands in the name of an execution; milliseconds only where there are some."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    part = f"{at % 1000:03d}" if at % 1000 else ""
    return f"{moment:%Y%m%dT%H%M%S}{part}Z"


def execution_name(occurrence: Occurrence) -> str:
    """The name of an occurrence's execution. It is made from the time at which the occurrence is due, so a backfill finds occurrences that
    ran already."""
    now = "now-" if occurrence.how is How.NOW else ""
    return f"{occurrence.schedule}-{now}{stamp(occurrence.at)}"
