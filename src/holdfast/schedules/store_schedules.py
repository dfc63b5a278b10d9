"""Shows and changes the schedules of a store: declare, add, change, pause, resume, run now, backfill and remove.

Each change reads the schedule, computes its new state, and writes it as the next revision. If another process has written that revision
first, the change is tried again; after several tries it raises ScheduleChanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from holdfast.contract.notes import meant
from holdfast.model.audit import Actor, Notes
from holdfast.model.clock import Clock
from holdfast.model.credentials import tenant_of
from holdfast.model.schedule_errors import ScheduleChanged, ScheduleInvalid, ScheduleNotFound
from holdfast.model.schedule_steps import due_between, resumed, retimed
from holdfast.model.schedules import (
    DECLARED,
    MAX_ASKED,
    Counted,
    Definition,
    How,
    OccurrenceRequest,
    Origin,
    ScheduleState,
    changed,
    checked_schedule_name,
    new_schedule,
)
from holdfast.schedules.declarations import Schedule
from holdfast.store.seam import ScheduleStore

_TRIES = 10
_PAGE = 200
_OPERATOR = "operator"
"""The name for a person who changed a schedule, if the person's name is not known."""


class Backfilled(msgspec.Struct, frozen=True):
    """What a backfill has asked for: the schedule, and how many occurrences were due."""

    schedule: ScheduleState
    due: int


class Schedules:
    """The schedules of a store. With a `tenant`, all methods but `declare` see and make only schedules of that tenant. `actor` is named in
    the audit log and in the schedules that it changes. `pause`, `resume`, `run_now`, `backfill` and `remove` raise ScheduleNotFound as
    `get` does. Each method that writes raises ScheduleChanged if other processes change the schedule during all its tries."""

    def __init__(self, store: ScheduleStore, clock: Clock, *, actor: Actor | None = None, tenant: str | None = None) -> None:
        self._store, self._clock, self._actor, self._tenant = store, clock, actor, tenant

    # --- looking

    def list(self, limit: int = 1000, beyond: str = "") -> Iterator[ScheduleState]:
        """At most `limit` schedules after the name `beyond`, sorted by name, without those that an operator removed."""
        left = limit
        while left > 0:
            page = self._store.schedules(beyond, min(_PAGE, left), self._tenant)
            for state in page:
                beyond = state.name
                if not state.removed:
                    left -= 1
                    yield state
            if not page:
                return

    def get(self, name: str) -> ScheduleState:
        """The schedule with this name. Raises ScheduleNotFound if there is none, or if it was removed, and ScheduleInvalid if the text
        cannot be a name of a schedule."""
        state = self._found(name)
        if state is None or state.removed:
            known = [one.name for one in self.list(_PAGE)]
            raise ScheduleNotFound(f"There is no schedule {name!r:.80}.{meant(name, known)}")
        return state

    def _found(self, name: str) -> ScheduleState | None:
        state = self._store.schedule(checked_schedule_name(name))
        if state is not None and self._tenant is not None and tenant_of(state.definition.tenant) != self._tenant:
            return None
        return state

    # --- declarations

    def declare(self, schedule: Schedule, *, origin: str = Origin.CODE) -> ScheduleState:
        """Write a schedule that `origin` declares: `code`, a worker's `page`, or a `toml` file. If an operator has changed or removed the
        schedule, the declaration is only recorded: it is not in force."""
        definition, text, origin = schedule.definition(), schedule.input_text(), Origin(origin)
        for _ in range(_TRIES):
            state, now = self._store.schedule(schedule.name), self._clock.now()
            if state is None:
                after = new_schedule(schedule.name, definition, text, origin=origin, now=now)
            else:
                known = _declared(state, definition, text, origin, now)
                if known is None:
                    return state
                after = known
            if self._store.put_schedule(after):
                return after
        raise ScheduleChanged

    # --- what operators do

    def add(self, schedule: Schedule, *, origin: str = Origin.CLI, replace: bool = False) -> ScheduleState:
        """Make a schedule, or with `replace` change an existing one. `origin` says where the operator does this: at this machine (`cli`),
        or over `http`. Later declarations do not change a schedule that was changed with `replace`, nor a schedule that was made by a known
        actor. Raises ScheduleInvalid or InvalidParameter if the schedule is not allowed. Raises ScheduleInvalid if a schedule of another
        tenant has the name, or if the name exists already and `replace` is not set."""
        definition, text, origin = schedule.definition(), schedule.input_text(), Origin(origin)
        if self._tenant is not None:
            definition = msgspec.structs.replace(definition, tenant=self._tenant)
        by = self._by
        for _ in range(_TRIES):
            state, now = self._found(schedule.name), self._clock.now()
            if state is None:
                if self._store.schedule(schedule.name) is not None:
                    raise ScheduleInvalid(f"The name {schedule.name!r} is taken by a schedule of another tenant. Use another name.")
                after, what = new_schedule(schedule.name, definition, text, origin=origin, now=now, by=by), "added"
            elif state.removed:
                anew = {"removed": False, "cursor": max(state.cursor, now), "waiting": (), "asked": (), "paused": False}
                after, what = _redefined(msgspec.structs.replace(state, **anew), definition, text, origin, now, by=by), "added"
            elif not replace:
                raise ScheduleInvalid(
                    f"There is a schedule {schedule.name!r} already. Use another name, or replace it (`--replace`; over HTTP `replace`)."
                )
            else:
                after, what = _redefined(state, definition, text, origin, now, by=by or _OPERATOR), "changed"
            if self._store.put_schedule(after, self._did("add schedule", schedule.name, what, now)):
                return after
        raise ScheduleChanged

    def pause(self, name: str) -> ScheduleState:
        """Pause a schedule: nothing that is due is started until a person resumes it. `run_now` and `backfill` still start occurrences."""
        return self._change(name, "pause schedule", "paused", lambda state, _: changed(state, paused=True, paused_by=self._by))

    def resume(self, name: str, *, catch_up: bool = False) -> ScheduleState:
        """Resume a schedule. Without `catch_up`, two kinds of occurrences are dropped: those that were due during the pause, and those that
        waited for an earlier occurrence to end. With `catch_up`, the schedule's catch-up policy decides which occurrences of the pause are
        started, and those that waited still wait."""

        def on(state: ScheduleState, now: int) -> ScheduleState:
            return resumed(msgspec.structs.replace(state, paused_by=None), now, catch_up=catch_up)

        return self._change(name, "resume schedule", "resumed", on)

    def run_now(self, name: str) -> ScheduleState:
        """Ask for one occurrence now, also if another one still runs or the schedule is paused. This only writes the request: a runner that
        hosts the function starts the occurrence. Raises ScheduleInvalid if too many such requests wait already."""

        def ask(state: ScheduleState, now: int) -> ScheduleState:
            taken = {asked.at for asked in state.asked}
            at = next(at for at in range(now, now + MAX_ASKED + 1) if at not in taken)
            return _asked(state, [OccurrenceRequest(at, How.NOW, self._by)])

        return self._change(name, "run schedule", "asked for one run", ask)

    def backfill(self, name: str, begin: int, end: int) -> Backfilled:
        """Ask for the occurrences that were due from `begin` on and before `end` (milliseconds), by the timing that was in force at that
        time (before the schedule existed, by its first timing). Times in the future are left out. This only writes the request: a runner
        that hosts the function starts them. An occurrence whose execution is still in the store is not started again. Returns the schedule,
        and how many occurrences were due. Raises ScheduleInvalid if there are too many, or if `end` is not after `begin`.
        """
        if end <= begin:
            raise ScheduleInvalid("The end of a backfill must be after its beginning.")
        due: list[OccurrenceRequest] = []

        def ask(state: ScheduleState, now: int) -> ScheduleState:
            found = due_between(state.history, begin, min(end, now + 1), MAX_ASKED)
            if len(found) > MAX_ASKED:
                raise ScheduleInvalid(f"More than {MAX_ASKED:,} occurrences were due in that time. Choose a shorter time.")
            due[:] = [OccurrenceRequest(at, How.BACKFILL, self._by) for at in found]
            return _asked(state, due)

        after = self._change(name, "backfill schedule", "asked for what was due in a time", ask)
        return Backfilled(after, len(due))

    def remove(self, name: str) -> None:
        """Remove a schedule. Executions that it started continue. A schedule that code, a page or a file declares stays removed until an
        operator adds it again."""
        for _ in range(_TRIES):
            state, now = self.get(name), self._clock.now()
            notes = self._did("remove schedule", name, "removed", now)
            if state.origin in DECLARED or state.declared is not None:
                gone = {"removed": True, "waiting": (), "asked": (), "changed_by": self._by or _OPERATOR, "changed_at": now}
                done = self._store.put_schedule(changed(state, **gone), notes)
            else:
                done = self._store.remove_schedule(name, state.revision, notes)
            if done:
                return
        raise ScheduleChanged

    def _change(self, name: str, what: str, outcome: str, change: Callable[[ScheduleState, int], ScheduleState]) -> ScheduleState:
        for _ in range(_TRIES):
            state, now = self.get(name), self._clock.now()
            after = change(state, now)
            if self._store.put_schedule(after, self._did(what, name, outcome, now)):
                return after
        raise ScheduleChanged

    def _did(self, what: str, name: str, outcome: str, now: int) -> Notes:
        return () if self._actor is None else self._actor.did(what, name, outcome, now)

    @property
    def _by(self) -> str | None:
        return None if self._actor is None else self._actor.who


def left_over(store: ScheduleStore, declared: Iterable[str], functions: Collection[str]) -> Iterator[str]:
    """A warning for each schedule that starts one of `functions`, was declared earlier by code, a page or a file, and is not in `declared`
    now. Each of these schedules goes on, because no process can know whether its declaration was deleted or is in another file. There is no
    warning for a schedule that an operator changed, paused or removed."""
    names, beyond = set(declared), ""
    while page := store.schedules(beyond, _PAGE):
        for state in page:
            is_theirs = state.origin in DECLARED and not state.removed and not state.paused and state.changed_by is None
            if is_theirs and state.name not in names and state.definition.function in functions:
                told = f"schedule {state.name} of {state.definition.function} was declared earlier ({state.origin.value}), and is not now"
                yield f"{told}; it goes on. If its declaration was deleted: holdfast schedules remove {state.name}"
        beyond = page[-1].name


def declare_all(store: ScheduleStore, clock: Clock, declared: Iterable[tuple[Schedule, Origin]]) -> None:
    """Declare many schedules. Raises ScheduleInvalid if two of them have the same name."""
    given = list(declared)
    names = [schedule.name for schedule, _ in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ScheduleInvalid(f"Several schedules are called {', '.join(twice)}. Give each schedule another name.")
    verbs = Schedules(store, clock)
    for schedule, origin in given:
        verbs.declare(schedule, origin=origin)


def _asked(state: ScheduleState, more: list[OccurrenceRequest]) -> ScheduleState:
    new = [asked for asked in more if asked not in state.asked]
    if len(state.asked) + len(new) > MAX_ASKED:
        raise ScheduleInvalid(
            f"{len(state.asked):,} requested occurrences are not started yet, and at most {MAX_ASKED:,} may wait. Try again later."
        )
    return changed(state, asked=(*state.asked, *new))


def _declared(state: ScheduleState, definition: Definition, text: str, origin: Origin, now: int) -> ScheduleState | None:
    """The schedule after a declaration; None if the declaration changes nothing."""
    if state.removed or state.changed_by is not None:
        same = state.definition == definition and state.input == text and not state.removed
        declared = None if same else definition
        if state.declared == declared and (declared is None or state.declared_origin is origin):
            return None
        return changed(state, declared=declared, declared_origin=None if declared is None else origin)
    if state.definition == definition and state.input == text and state.origin is origin:
        return None
    return _redefined(state, definition, text, origin, now, by=None)


def _redefined(state: ScheduleState, definition: Definition, text: str, origin: Origin, now: int, *, by: str | None) -> ScheduleState:
    """The schedule with a new definition from `now` on. A new timing adds no occurrences before `now`. `by` is the operator who changes the
    schedule. None: the new definition counts as a declaration, which later declarations may change."""
    history = state.history
    if definition.timing != state.definition.timing:
        state = retimed(state, now)
        history = (*history, Counted(now, definition.timing))
    declared, declared_origin = state.declared, state.declared_origin
    if by is not None and declared is None and state.origin in DECLARED:
        declared, declared_origin = state.definition, state.origin
    return changed(
        state,
        definition=definition,
        input=text,
        origin=origin,
        history=history,
        changed_by=by,
        changed_at=None if by is None else now,
        declared=None if by is None else declared,
        declared_origin=None if by is None else declared_origin,
    )
