"""Retention: executions past their retention time are removed in small steps, and nothing else is."""

import pytest

from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, Outcome, OutcomeStatus, State, Terms
from holdfast.model.history import EventType as E
from holdfast.model.operations import Action
from holdfast.model.outside import Stop
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.opened_stores import OneHandle, Opening, TwoHandles
from holdfast.testing.stores.writes import (
    DAY,
    NO_END,
    T0,
    after,
    answers,
    callback,
    closed,
    execution_succeeds,
    forgotten,
    live,
    names,
    now_at,
    settled,
    started,
    step,
    story,
    suspended,
    wanted,
    written,
)

DAY_LATER = T0 + DAY


class RetentionSuite(OneHandle):
    """Tests: what is removed, and what is not. They need one handle of the store."""

    def test_an_execution_is_gone_when_its_retention_is_over_and_not_before(self, store: Store) -> None:
        header = closed(store, "a", steps=2)
        assert header.expires_at == DAY_LATER
        assert forgotten(store, DAY_LATER - 1) == 0
        assert store.find(header.id) == header
        assert forgotten(store, DAY_LATER) > 0
        assert store.find(header.id) is None
        assert store.find_named("order", "a") is None
        assert list(store.list(Filter())) == []
        assert (list(store.history(header.id)), list(store.operations(header.id)), store.input(header.id)) == ([], [], None)
        (refused,) = answers(store, Stop(header.id))
        assert isinstance(refused, ExecutionNotFound)

    def test_nothing_else_is_touched(self, store: Store) -> None:
        kept = [closed(store, "longer", steps=2, retention_days=2), closed(store, "later", steps=2, now=T0 + 1000)]
        closed(store, "a", steps=2)
        kept += [suspended(store, "open", step("s", Action.SUCCEED, payload="1"), callback("c")), live(store, "live", step("s"))]
        before = [(store.find(x.id), list(store.operations(x.id)), list(store.history(x.id)), store.input(x.id)) for x in kept]
        forgotten(store, DAY_LATER)
        assert [(store.find(x.id), list(store.operations(x.id)), list(store.history(x.id)), store.input(x.id)) for x in kept] == before
        assert set(names(store.list(Filter()))) == {"longer", "later", "open", "live"}

    def test_what_is_not_closed_is_never_removed(self, store: Store) -> None:
        closing = live(store, "closing")
        after(store, closing, execution_succeeds("1"))
        assert now_at(store, closing).state is State.CLOSING
        suspended(store, "open", callback("c"))
        assert forgotten(store, T0 + 400 * DAY) == 0
        closed(store, "closed")
        forgotten(store, T0 + 400 * DAY)
        assert set(names(store.list(Filter()))) == {"closing", "open"}
        written(store, settled(closing, Outcome(OutcomeStatus.SUCCEEDED, "")))
        forgotten(store, T0 + 400 * DAY)
        assert names(store.list(Filter())) == ["open"]

    def test_its_name_can_be_used_again(self, store: Store) -> None:
        first = closed(store, "a", steps=2)
        forgotten(store, DAY_LATER)
        second = started(store, "a", now=DAY_LATER)
        assert second.id != first.id
        assert story(store, second) == [E.EXECUTION_STARTED]

    def test_a_large_execution_goes_in_many_small_steps_and_its_name_at_once(self, store: Store) -> None:
        first = closed(store, "a", steps=40)
        steps = len(store.history(first.id)) + len(store.operations(first.id))
        assert store.expire(DAY_LATER, 10)
        assert store.find(first.id) is None
        second = started(store, "a", now=DAY_LATER)
        beside = live(store, "beside")
        count = 1
        while store.expire(DAY_LATER, 10):
            count += 1
            assert count < 1000, NO_END
            beside = after(store, beside, step(f"s{count}", Action.SUCCEED, payload="1"))
        assert count >= steps // 10
        assert story(store, second) == [E.EXECUTION_STARTED]
        assert len(store.operations(beside.id)) == count - 1

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
    def test_many_go_whatever_the_size_of_a_step(self, store: Store, limit: int) -> None:
        kept = closed(store, "kept", steps=3, retention_days=9)
        for n in range(7):
            closed(store, f"n{n}", steps=n)
        before = (list(store.operations(kept.id)), story(store, kept))
        forgotten(store, DAY_LATER, limit)
        assert names(store.list(Filter())) == ["kept"]
        assert (list(store.operations(kept.id)), story(store, kept)) == before

    @pytest.mark.parametrize("limit", [1, 5, 20])
    def test_a_new_execution_gets_nothing_of_one_that_is_being_removed(self, store: Store, limit: int) -> None:
        """A client starts an execution between two steps of the removal. The new execution must not find rows of the old one."""
        closed(store, "old", steps=12)
        new = list[Execution]()
        while store.expire(DAY_LATER, limit):
            header = started(store, f"new{len(new)}", now=DAY_LATER)
            new.append(header)
            assert len(new) < 1000, NO_END
            assert story(store, header) == [E.EXECUTION_STARTED]
            assert list(store.operations(header.id)) == []
        assert [story(store, header) for header in new] == [[E.EXECUTION_STARTED]] * len(new)
        assert len(store.list(Filter(limit=1000))) == len(new)

    def test_a_child_outlives_the_parent_that_is_forgotten(self, store: Store) -> None:
        parent = closed(store, "parent")
        child = started(store, "child", parent=parent.id, parent_operation="op", terms=Terms(30 * 86_400))
        forgotten(store, DAY_LATER)
        assert written(store, Stop(child.id), DAY_LATER).state is State.CLOSED
        assert names(store.list(Filter(parent=parent.id))) == ["child"]


class SharedRetentionSuite(TwoHandles):
    """Tests: several processes that remove executions. They need two handles of the store."""

    def test_what_one_began_to_remove_another_finishes(self, opening: Opening, store: Store) -> None:
        header = closed(store, "a", steps=20)
        assert store.expire(DAY_LATER, 5)
        store.close()
        later = opening("later")
        assert later.find(header.id) is None
        assert forgotten(later, DAY_LATER, 5) > 5
        second = started(later, "a", now=DAY_LATER)
        assert story(later, second) == [E.EXECUTION_STARTED]

    def test_two_may_remove_at_the_same_time(self, store: Store, other: Store) -> None:
        for n in range(5):
            closed(store, f"n{n}", steps=n)
        kept = closed(store, "kept", steps=3, retention_days=9)
        turns = 0
        while (store, other)[turns % 2].expire(DAY_LATER, 4):
            turns += 1
            assert turns < 1000, NO_END
        assert not store.expire(DAY_LATER, 4)
        assert names(other.list(Filter())) == ["kept"]
        assert len(other.operations(kept.id)) == 3

    def test_an_execution_the_other_removed_is_not_found_here(self, store: Store, other: Store) -> None:
        header = closed(store, "a")
        forgotten(other, DAY_LATER)
        (refused, created) = answers(store, Stop(header.id), wanted("a", "other input"), now=DAY_LATER)
        assert isinstance(refused, ExecutionNotFound)
        assert getattr(created, "created", False)
