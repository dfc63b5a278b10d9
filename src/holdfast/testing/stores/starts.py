"""Starts: how executions begin, which execution has a name, and what a repeated start finds."""

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError, LimitReached
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms
from holdfast.model.history import EventType as E
from holdfast.model.ids import Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Stop
from holdfast.model.verbs import Checkpoint, Start, Started
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    DAY,
    ORDER,
    T0,
    answers,
    at,
    closed,
    forgotten,
    id_at,
    live,
    names,
    now_at,
    settled,
    started,
    step,
    story,
    wanted,
    written,
)


def again(name: str, text: str = "{}", **set_to: object) -> Start:
    """A start that takes over the name if the name's execution failed, timed out, was stopped or is parked."""
    return msgspec.structs.replace(wanted(name, text, **{"id": id_at(at(1))} | set_to), again=True)


class StartingSuite(OneHandle):
    """Tests: how executions begin. They need one handle of the store."""

    def test_a_started_execution_is_found_by_id_and_by_name(self, store: Store) -> None:
        (answer,) = answers(store, wanted("a", '{"x": 1}'))
        assert isinstance(answer, Started)
        assert answer.created
        assert store.find(answer.header.id) == store.find_named("order", "a") == answer.header
        assert (store.input(answer.header.id), list(store.operations(answer.header.id))) == ('{"x": 1}', [])
        assert story(store, answer.header) == [E.EXECUTION_STARTED]

    def test_what_was_never_started_is_not_found(self, store: Store) -> None:
        assert store.find(id_at(T0)) is None
        assert store.find_named("order", "absent") is None
        assert store.input(id_at(T0)) is None

    def test_a_start_with_the_same_name_and_input_finds_the_first(self, store: Store) -> None:
        first = started(store, "a")
        assert answers(store, wanted("a")) == [Started(first, False)]

    def test_a_start_with_the_same_name_and_input_finds_also_a_closed_one(self, store: Store) -> None:
        closed = written(store, Stop(started(store, "a").id))
        assert answers(store, wanted("a")) == [Started(closed, False)]

    def test_a_start_with_the_same_name_and_another_input_is_a_conflict(self, store: Store) -> None:
        first = started(store, "a")
        (refused,) = answers(store, wanted("a", '{"other": 1}'))
        assert isinstance(refused, ExecutionAlreadyStarted)
        assert first.id in str(refused)

    def test_a_start_with_the_same_name_and_another_version_is_a_conflict(self, store: Store) -> None:
        started(store, "a")
        (refused,) = answers(store, wanted("a", version="2"))
        assert isinstance(refused, ExecutionAlreadyStarted)

    def test_a_start_with_a_name_of_another_tenant_is_a_conflict_that_tells_nothing_of_it(self, store: Store) -> None:
        first = started(store, "a", tenant="north")
        for asked in (wanted("a", tenant="south"), wanted("a", "[1]", tenant="south"), wanted("a", version="2")):
            (refused,) = answers(store, asked)
            assert isinstance(refused, ExecutionAlreadyStarted)
            assert first.id not in str(refused)
        assert answers(store, wanted("a", tenant="north")) == [Started(first, False)]

    def test_names_are_compared_within_one_batch_too(self, store: Store) -> None:
        first, same, other_input, other_version = answers(store, wanted("a"), wanted("a"), wanted("a", "1"), wanted("a", version="2"))
        assert isinstance(first, Started)
        assert same == Started(first.header, False)
        assert isinstance(other_input, ExecutionAlreadyStarted)
        assert isinstance(other_version, ExecutionAlreadyStarted)
        assert names(store.list(Filter())) == ["a"]

    def test_a_name_belongs_to_its_function(self, store: Store) -> None:
        one, two = answers(store, wanted("a"), wanted("a", function="refund"))
        assert isinstance(one, Started)
        assert isinstance(two, Started)
        assert one.header.id != two.header.id

    def test_a_failed_name_started_again_is_a_new_execution_and_the_old_one_stays(self, store: Store) -> None:
        old = written(store, Stop(started(store, "a").id))
        asked = again("a", '{"other": 1}')
        (answer,) = answers(store, asked, now=at(1))
        assert isinstance(answer, Started)
        assert (answer.created, answer.header.id) == (True, asked.header.id)
        superseded = now_at(store, old)
        assert superseded == msgspec.structs.replace(old, superseded_by=asked.header.id, revision=old.revision + 1)
        assert store.find_named("order", "a") == store.find(asked.header.id)
        assert [x.id for x in store.list(Filter(name="a"))] == [asked.header.id, old.id]
        assert [x.id for x in store.list(Filter(name="a", statuses=(ExecutionStatus.STOPPED,)))] == [old.id]
        assert (story(store, old), story(store, asked.header)) == ([E.EXECUTION_STARTED, E.EXECUTION_STOPPED], [E.EXECUTION_STARTED])

    def test_a_name_is_started_again_only_after_a_failure(self, store: Store) -> None:
        running, done = started(store, "running"), closed(store, "done")
        for header in (running, done):
            (answer,) = answers(store, again(header.name))
            assert answer == Started(now_at(store, header), False)
            (refused,) = answers(store, again(header.name, "[1]"))
            assert isinstance(refused, ExecutionAlreadyStarted)
        assert sorted(names(store.list(Filter()))) == ["done", "running"]

    def test_one_that_went_on_as_others_is_started_again_when_the_caller_saw_the_last_one_fail(self, store: Store) -> None:
        header = live(store, "a")
        heir = id_at(T0)
        gone_on = written(store, msgspec.structs.replace(settled(header, Outcome(OutcomeStatus.CONTINUED, "1")), successor=heir))
        assert answers(store, again("a")) == [Started(gone_on, False)]
        (answer,) = answers(store, msgspec.structs.replace(again("a"), failed_as=header.id))
        assert isinstance(answer, Started)
        assert (answer.created, now_at(store, header).superseded_by) == (True, answer.header.id)

    def test_starting_again_twice_in_one_batch_starts_once(self, store: Store) -> None:
        old = started(store, "a")
        stopped, first, second = answers(store, Stop(old.id), again("a"), again("a"))
        assert isinstance(stopped, Execution)
        assert isinstance(first, Started)
        assert second == Started(first.header, False)
        assert [x.superseded_by for x in store.list(Filter(name="a"))] == [None, first.header.id]

    def test_a_second_failure_is_superseded_too_and_retention_forgets_each(self, store: Store) -> None:
        terms = Terms(3600, 1)
        written(store, Stop(started(store, "a", terms=terms).id))
        written(store, Stop(written(store, again("a", terms=terms)).id), at(1))
        last = written(store, again("a", id=id_at(at(2))), at(2))
        assert [x.superseded_by is None for x in store.list(Filter(name="a"))] == [True, False, False]
        forgotten(store, T0 + 2 * DAY)
        assert [x.id for x in store.list(Filter(name="a"))] == [last.id]
        assert store.find_named("order", "a") == now_at(store, last)

    def test_a_start_again_that_is_refused_leaves_the_name_where_it_was(self, store: Store) -> None:
        old = written(store, Stop(started(store, "a").id))
        bad = msgspec.structs.replace(again("a"), charges=(Charge("day", 2, 1, T0 + DAY),))
        refused, found = answers(store, bad, wanted("a"))
        assert isinstance(refused, LimitReached)
        assert found == Started(old, False)

    def test_a_start_again_may_be_claimed_in_the_same_write(self, store: Store) -> None:
        written(store, Stop(started(store, "a").id))
        (answer,) = answers(store, msgspec.structs.replace(again("a"), by=Claimant("here", "here-1")))
        assert isinstance(answer, Started)
        assert (answer.header.state, list(store.held("here"))) == (State.RUNNING, [answer.header.id])

    def test_a_start_may_be_claimed_in_the_same_write(self, store: Store) -> None:
        header = live(store, "a")
        assert (header.state, header.runner, header.epoch) == (State.RUNNING, "here", 1)
        assert list(store.claimable(ORDER, (), T0, 10)) == []

    def test_a_start_may_be_followed_by_other_writes_of_the_same_batch(self, store: Store) -> None:
        asked = msgspec.structs.replace(wanted("a"), by=Claimant("here", "here-1"))
        first = Checkpoint(Position(asked.header.id, 1, 0, 1), (step("s"),))
        second = Checkpoint(Position(asked.header.id, 1, 1, 2), (step("s", Action.SUCCEED, payload="1"),))
        assert not [answer for answer in answers(store, asked, first, second) if isinstance(answer, HoldfastError)]
        assert [(op.id, op.status, op.result) for op in store.operations(asked.header.id)] == [("s", Status.SUCCEEDED, "1")]
        assert story(store, asked.header) == [E.EXECUTION_STARTED, E.STEP_STARTED, E.STEP_SUCCEEDED]
