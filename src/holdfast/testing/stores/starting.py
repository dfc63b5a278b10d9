"""How executions begin: whose name it is, and what a repeated start finds."""

import msgspec

from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError
from holdfast.model.execution import State
from holdfast.model.history import EventType as E
from holdfast.model.ids import Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Stop
from holdfast.model.verbs import Checkpoint, Started
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.handles import OneHandle
from holdfast.testing.stores.writes import ORDER, T0, answers, id_at, live, names, started, step, story, wanted, written


class StartingSuite(OneHandle):
    """How executions begin. One handle."""

    def test_a_started_execution_is_found_by_id_and_by_name(self, store: Store) -> None:
        (answer,) = answers(store, wanted("a", '{"x": 1}'))
        assert isinstance(answer, Started)
        assert answer.created
        assert store.find(answer.header.id) == store.find_named("order", "a") == answer.header
        assert (store.input(answer.header.id), list(store.operations(answer.header.id))) == ('{"x": 1}', [])
        assert story(store, answer.header) == [E.EXECUTION_STARTED]

    def test_what_was_never_started_is_not_found(self, store: Store) -> None:
        assert store.find(id_at(T0)) is None
        assert store.find_named("order", "nobody") is None
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
