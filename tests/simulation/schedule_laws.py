"""Schedules of a simulation, and what must hold for them: the cursor never goes back, and no occurrence is started twice, whatever the
number of runners. Where a policy leaves nothing out, each occurrence is started exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from random import Random

from holdfast.model import codec
from holdfast.model.execution import Execution
from holdfast.model.schedule_times import Timing, occurrences
from holdfast.model.schedules import CatchUp, Definition, How, Origin, Overlap, ScheduleState, new_schedule, occurrence_in
from holdfast.store.seam import Store
from tests.simulation.workload import ScriptMaker

_EVERYTHING = (CatchUp.ALL, 100)
_MOST = 100
"""More than any schedule here has."""
_POLICIES = (
    (Overlap.ALLOW, *_EVERYTHING),
    (Overlap.QUEUE, *_EVERYTHING),
    (Overlap.ALLOW, CatchUp.NONE, 1),
    (Overlap.SKIP, CatchUp.LATEST, 1),
    (Overlap.REPLACE, CatchUp.LATEST, 1),
)


def add_schedules(store: Store, chance: Random, now: int) -> None:
    """One or two schedules, made by chance, that end after a while."""
    for number in range(chance.choice([0, 1, 1, 2])):
        overlap, catch_up, most = chance.choice(_POLICIES)
        every, lasts = chance.randint(1, 6), chance.randint(4, 25)
        timing = Timing(every=every, end=now + lasts * 1000)
        definition = Definition(function="script", timing=timing, overlap=overlap, catch_up=catch_up, catch_up_most=most)
        script = codec.dumps(ScriptMaker(chance).script(0))
        assert store.put_schedule(new_schedule(f"tick{number}", definition, script, origin=Origin.CODE, now=now))


class ScheduleLaws:
    """Looks at the schedules after every commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first: dict[str, ScheduleState] = {}
        self._last: dict[str, ScheduleState] = {}
        self.check()

    def check(self) -> None:
        """Raise an AssertionError if a cursor or a revision went back."""
        for state in self._store.schedules("", _MOST):
            before = self._last.get(state.name)
            if before is not None:
                assert state.cursor >= before.cursor, f"the cursor of {state.name} went back from {before.cursor} to {state.cursor}"
                assert state.revision >= before.revision, f"the revision of {state.name} went back"
            self._first.setdefault(state.name, state)
            self._last[state.name] = state

    def left(self) -> list[str]:
        """The schedules that are not over, or of which an occurrence waits."""
        states = self._store.schedules("", _MOST)
        return [f"{x.name} (due {x.next_at}, waiting {x.waiting})" for x in states if x.waiting or x.next_at is not None]

    def check_started(self, executions: Iterable[Execution]) -> None:
        """Raise an AssertionError for an occurrence that was started twice, or was left out and must not be."""
        marks = (occurrence_in(self._store.history(header.id, limit=1)[0].event.detail) for header in executions)
        started = Counter((mark.schedule, mark.at) for mark in marks if mark is not None and mark.how is How.DUE)
        twice = [occurrence for occurrence, count in started.items() if count > 1]
        assert not twice, f"was started twice: {twice}"
        self.check()
        for name, state in self._last.items():
            definition, began, cursor = state.definition, self._first[name].cursor, state.cursor
            if (definition.catch_up, definition.catch_up_most) == _EVERYTHING:
                due = {at for at in islice(occurrences(definition.timing, began), _MOST) if at <= cursor}
                found = {at for schedule, at in started if schedule == name}
                assert found == due, f"{name} left out {sorted(due - found)} and started {sorted(found - due)} too many"
