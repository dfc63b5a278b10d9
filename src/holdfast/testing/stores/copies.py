"""Copies of executions: a copy has all data of the original, and is written completely or not at all."""

import contextlib
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError
from holdfast.model.execution import State
from holdfast.model.operations import Action
from holdfast.store.seam import Filter, Snapshot, Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import LEASE, OOPS, after, callback, execution_succeeds, live, now_at, started, step, wait


def of_many_kinds(store: Store) -> Snapshot:
    """The snapshot of a new execution with five operations: a step that succeeded, one that failed, one that waits for a retry, a wait and
    a callback."""
    updates = (
        step("s", Action.SUCCEED, payload='"done"'),
        step("f", Action.FAIL, error=OOPS),
        step("r", Action.RETRY, error=OOPS, delay_seconds=5),
        wait("w"),
        callback("c", 60, 30),
    )
    return all_of(store, live(store, "a", *updates).id)


def all_of(store: Store, execution: str) -> Snapshot:
    """The snapshot of an execution. The test fails if the store does not have it."""
    found = store.snapshot(execution)
    assert found is not None
    return found


class CopySuite(OneHandle):
    """Tests: snapshots, also between this backend and another. They need one handle of the store."""

    @pytest.fixture
    def elsewhere(self) -> Iterator[Store]:
        """A SQLite store in memory, whose executions are copied into the store of the test."""
        with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as store:
            store.join("here", LEASE)
            yield store

    def test_there_is_no_snapshot_of_what_is_not_there(self, store: Store) -> None:
        assert store.snapshot("absent") is None

    def test_a_snapshot_is_all_that_can_be_read_of_an_execution(self, store: Store) -> None:
        found = of_many_kinds(store)
        assert found.header == store.find(found.header.id)
        assert list(found.operations) == list(store.operations(found.header.id))
        assert list(found.events) == [line.event for line in store.history(found.header.id)]

    def test_a_copy_comes_from_another_backend_and_goes_back_as_it_was(self, store: Store, elsewhere: Store) -> None:
        found = of_many_kinds(elsewhere)
        assert store.adopt(found)
        copy = all_of(store, found.header.id)
        assert (copy.events, len(copy.operations)) == (found.events, 5)
        with contextlib.closing(SqliteStore(":memory:", "back")) as back:
            assert back.adopt(copy)
            assert all_of(back, found.header.id).events == found.events
        assert [op.result for op in store.operations(found.header.id) if op.id == "s"] == ['"done"']

    def test_a_copy_that_is_there_is_not_written_again(self, store: Store, elsewhere: Store) -> None:
        found = of_many_kinds(elsewhere)
        assert [store.adopt(found), store.adopt(found)] == [True, False]
        assert started(store, "b").name == "b", "other executions can still be started"

    def test_a_closing_execution_keeps_the_end_that_nobody_sees_yet(self, store: Store) -> None:
        header = after(store, live(store, "a"), execution_succeeds('"the end"'))
        assert header.state is State.CLOSING
        assert [event.number for event in all_of(store, header.id).events] == [1, 3]
        assert [line.event.number for line in store.history(header.id)] == [1]

    def test_what_differs_in_one_event_is_another_execution(self, store: Store) -> None:
        found = of_many_kinds(store)
        last = msgspec.structs.replace(found.events[-1], payload='"other"')
        with pytest.raises(ExecutionAlreadyStarted):
            store.adopt(msgspec.structs.replace(found, events=(*found.events[:-1], last)))
        assert all_of(store, found.header.id) == found

    def test_a_copy_whose_name_is_taken_is_refused(self, store: Store, elsewhere: Store) -> None:
        mine = started(store, "a")
        with pytest.raises(ExecutionAlreadyStarted):
            store.adopt(of_many_kinds(elsewhere))
        assert list(store.list(Filter())) == [now_at(store, mine)]

    def test_a_copy_that_cannot_be_written_leaves_nothing(self, store: Store, elsewhere: Store) -> None:
        found = of_many_kinds(elsewhere)
        twice = msgspec.structs.replace(found, events=(*found.events, found.events[-1]))
        with pytest.raises(HoldfastError):
            store.adopt(twice)
        assert (store.find(found.header.id), list(store.operations(found.header.id))) == (None, [])
        assert store.adopt(found)

    def test_a_copy_is_no_change_of_a_status_and_nobody_is_told(self, store: Store, elsewhere: Store) -> None:
        store.subscribe("billing")
        store.adopt(of_many_kinds(elsewhere))
        assert store.take_delivery("billing", "here") is not None
        assert store.signals("billing", "here", 0, 10) == []
