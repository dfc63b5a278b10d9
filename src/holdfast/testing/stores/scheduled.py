"""Schedules: a start and the change of its schedule are one write. A change is refused unless it was made from the revision that is in the
store."""

import msgspec

from holdfast.model.audit import Actor, NoteFilter
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.history import SCHEDULE
from holdfast.model.places import Only
from holdfast.model.schedule_errors import ScheduleChanged
from holdfast.model.schedule_times import Timing
from holdfast.model.schedules import Definition, Occurrence, Origin, ScheduleState, changed, new_schedule
from holdfast.model.verbs import Start, Started
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import PROCESSES, OneHandle, Opening, TwoHandles
from holdfast.testing.stores.races import ROUNDS, together
from holdfast.testing.stores.writes import SECOND, T0, answers, at, started, wanted

HOUR = 3600
ACTOR = Actor(who="local:suite", origin="cli")


def schedule(name: str = "hourly", *, now: int = T0, tenant: str | None = None, function: str = "order") -> ScheduleState:
    """A schedule that is due at every full hour."""
    definition = Definition(function=function, timing=Timing(every=HOUR), tenant=tenant)
    return new_schedule(name, definition, '{"n":1}', origin=Origin.CLI, now=now)


def firing(state: ScheduleState, seconds: float, name: str | None = None) -> Start:
    """The start of the occurrence this many seconds after T0, which also moves the schedule to this occurrence. `name` is the name of the
    execution; None: a name made from the schedule and the seconds."""
    moved = changed(state, cursor=at(seconds))
    occurrence = Occurrence(state.name, at(seconds))
    return msgspec.structs.replace(wanted(name or f"{state.name}-{seconds:g}"), occurrence=occurrence, moved=moved)


class ScheduleSuite(OneHandle):
    """Tests: schedules and their revisions. They need one handle of the store."""

    def test_a_schedule_is_kept_as_it_was_given_and_only_once(self, store: Store) -> None:
        state = schedule()
        assert store.schedule("hourly") is None
        assert store.put_schedule(state)
        assert store.schedule("hourly") == state
        assert not store.put_schedule(schedule(now=at(5)))
        assert store.schedule("hourly") == state

    def test_only_the_next_revision_is_taken_and_the_cursor_never_goes_back(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        second = changed(state, paused=True)
        assert store.put_schedule(second)
        assert not store.put_schedule(second)
        assert not store.move_schedule(changed(state, cursor=at(HOUR)))
        assert not store.put_schedule(changed(second, cursor=T0 - SECOND))
        assert not store.move_schedule(changed(second, cursor=T0 - SECOND))
        assert store.schedule("hourly") == second

    def test_an_occurrence_begins_and_its_schedule_moves_in_one_write(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        (said,) = answers(store, firing(state, HOUR), now=at(HOUR))
        assert isinstance(said, Started)
        assert store.schedule("hourly") == changed(state, cursor=at(HOUR))
        (first,) = store.history(said.header.id)
        assert (first.event.detail or {})[SCHEDULE] == {"schedule": "hourly", "at": at(HOUR), "how": "due"}

    def test_a_start_whose_schedule_has_another_revision_is_refused_and_spoils_no_other(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        store.put_schedule(changed(state, paused=True))
        late, beside = answers(store, firing(state, HOUR), wanted("beside"), now=at(HOUR))
        assert isinstance(late, ScheduleChanged)
        assert isinstance(beside, Started)
        assert store.find_named("order", "hourly-3600") is None

    def test_of_two_starts_of_one_revision_in_one_batch_the_second_is_refused(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        first, second = answers(store, firing(state, HOUR, "first"), firing(state, HOUR, "second"), now=at(HOUR))
        assert isinstance(first, Started)
        assert isinstance(second, ScheduleChanged)
        assert store.find_named("order", "second") is None

    def test_a_start_that_does_not_begin_moves_nothing(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        started(store, "hourly-3600")
        (taken,) = answers(store, firing(state, HOUR), now=at(HOUR))
        assert isinstance(taken, ExecutionAlreadyStarted)
        assert store.schedule("hourly") == state

    def test_a_start_of_a_schedule_that_is_gone_or_would_go_back_is_refused(self, store: Store) -> None:
        state = schedule()
        (absent,) = answers(store, firing(state, HOUR), now=at(HOUR))
        store.put_schedule(state)
        (back,) = answers(store, firing(state, -HOUR, "back"), now=at(HOUR))
        assert isinstance(absent, ScheduleChanged)
        assert isinstance(back, ScheduleChanged)

    def test_due_schedules_are_those_of_the_functions_that_are_asked_for(self, store: Store) -> None:
        for name, function in (("b", "order"), ("a", "order"), ("c", "other")):
            store.put_schedule(schedule(name, function=function))
        assert store.next_schedule(["order"]) == at(HOUR)
        assert store.next_schedule(["absent"]) is None
        assert list(store.due_schedules(["order", "absent"], at(HOUR) - 1, 10)) == []
        assert sorted(store.due_schedules(["order", "absent"], at(HOUR), 10)) == ["a", "b"]
        assert len(store.due_schedules(["order", "other"], at(HOUR), 2)) == 2

    def test_a_runner_of_some_tenants_has_their_schedules_and_one_of_some_queues_has_none(self, store: Store) -> None:
        for name, tenant in (("a", "acme"), ("b", "blue"), ("none", None)):
            state = schedule(name, tenant=tenant)
            store.put_schedule(state)
            store.put_schedule(changed(schedule(name, tenant=tenant), waiting=(at(0),)))

        def seen(only: Only | None) -> tuple[list[str], list[str], bool]:
            due, waiting = store.due_schedules(["order"], at(HOUR), 10, only), store.waiting_schedules(["order"], 10, only)
            return sorted(due), sorted(waiting), store.next_schedule(["order"], only) is not None

        assert seen(None) == seen(Only()) == (["a", "b", "none"], ["a", "b", "none"], True)
        assert seen(Only(tenants=frozenset({"acme"}))) == (["a"], ["a"], True)
        assert seen(Only(tenants=frozenset({"default"}))) == (["none"], ["none"], True)
        assert seen(Only(tenants=frozenset({"absent"}))) == ([], [], False)
        assert seen(Only(frozenset({"emails"}), frozenset({"acme"}))) == ([], [], False)

    def test_a_schedule_without_a_tenant_is_one_of_the_tenant_default(self, store: Store) -> None:
        for name, tenant in (("a", "acme"), ("b", "default"), ("none", None)):
            store.put_schedule(schedule(name, tenant=tenant))
        seen = {tenant: [one.name for one in store.schedules("", 10, tenant)] for tenant in ("default", "acme", "absent", None)}
        assert seen == {"default": ["b", "none"], "acme": ["a"], "absent": [], None: ["a", "b", "none"]}

    def test_a_paused_schedule_is_never_due_and_a_waiting_one_is_found(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        store.put_schedule(changed(state, waiting=(at(HOUR),), cursor=at(HOUR)))
        assert list(store.waiting_schedules(["order"], 10)) == ["hourly"]
        found = store.schedule("hourly")
        assert found is not None
        store.put_schedule(changed(found, paused=True))
        assert (list(store.waiting_schedules(["order"], 10)), store.next_schedule(["order"])) == ([], None)

    def test_schedules_are_listed_by_name_in_pages_and_by_tenant(self, store: Store) -> None:
        for name in ("c", "a", "b"):
            store.put_schedule(schedule(name, tenant="blue" if name == "b" else None))
        assert [state.name for state in store.schedules("", 2)] == ["a", "b"]
        assert [state.name for state in store.schedules("b", 2)] == ["c"]
        assert [state.name for state in store.schedules("", 9, "blue")] == ["b"]

    def test_a_schedule_is_removed_at_its_revision_only(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        assert not store.remove_schedule("hourly", 2)
        assert store.remove_schedule("hourly", 1, ACTOR.did("remove schedule", "hourly", "removed", T0))
        assert not store.remove_schedule("hourly", 1, ACTOR.did("remove schedule", "hourly", "removed", T0))
        assert store.schedule("hourly") is None
        assert [noted.note.what for noted in store.audit(NoteFilter())] == ["remove schedule"]

    def test_the_notes_of_a_change_are_kept_with_it_or_not_at_all(self, store: Store) -> None:
        state = schedule()
        store.put_schedule(state, ACTOR.did("add schedule", "hourly", "added", T0))
        store.put_schedule(state, ACTOR.did("add schedule", "hourly", "added", T0))
        assert len(store.audit(NoteFilter())) == 1


class SharedScheduleSuite(TwoHandles):
    """Tests: schedules of several processes. They need a handle for each process."""

    def test_a_schedule_that_the_other_changed_is_seen(self, store: Store, other: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        assert other.schedule("hourly") == state
        assert other.changed()
        assert other.put_schedule(changed(state, paused=True))
        (late,) = answers(store, firing(state, HOUR), now=at(HOUR))
        assert isinstance(late, ScheduleChanged)

    def test_a_schedule_that_the_other_removed_is_told(self, store: Store, other: Store) -> None:
        store.put_schedule(schedule())
        assert other.changed()
        assert not other.changed()
        assert store.remove_schedule("hourly", 1)
        assert other.changed()

    def test_of_many_that_fire_one_occurrence_at_once_one_starts_it(self, opening: Opening, store: Store) -> None:
        state = schedule()
        store.put_schedule(state)
        handles = [opening(f"p{n}") for n in range(PROCESSES)]

        def race(number: int, handle: Store) -> int:
            won = 0
            for _ in range(ROUNDS):
                found = handle.schedule("hourly")
                assert found is not None
                due = (found.next_at or 0) - T0
                (said,) = answers(handle, firing(found, due / SECOND, f"p{number}-{found.revision}"), now=T0 + due)
                won += isinstance(said, Started)
            return won

        won = sum(together(handles, race))
        last = store.schedule("hourly")
        assert last is not None
        assert last.revision == 1 + won
        assert last.cursor == at(HOUR * won)
