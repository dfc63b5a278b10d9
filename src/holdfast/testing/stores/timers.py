"""Timers: which executions have a timer that is due, and in which order; a timer fires once."""

from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.history import EventType as E
from holdfast.model.operations import Status
from holdfast.model.outside import Answering, Fire, Heartbeat
from holdfast.store.seam import Store, Target
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    OOPS,
    ORDER,
    answers,
    at,
    callback,
    checkpoint,
    live,
    settled,
    started,
    story,
    suspended,
    wait,
    written,
)


class TimerSuite(OneHandle):
    """Tests: timers. They need one handle of the store."""

    def test_an_execution_is_due_when_its_timer_is(self, store: Store) -> None:
        header = suspended(store, "a", wait("w", 10))
        assert list(store.due(at(9.999), 10)) == []
        assert list(store.due(at(10), 10)) == [header.id]
        assert store.next_due(ORDER) == at(10)

    def test_firing_ends_the_wait_and_moves_the_next_due_time(self, store: Store) -> None:
        header = suspended(store, "a", wait("w", 10), wait("later", 30))
        fired = written(store, Fire(header.id), at(10))
        assert (fired.state, fired.due_at) == (State.READY, at(30))
        assert [op.status for op in store.operations(header.id)] == [Status.SUCCEEDED, Status.STARTED]
        assert story(store, header)[-1] is E.WAIT_SUCCEEDED
        assert list(store.due(at(10), 10)) == []

    def test_a_lower_bound_that_came_too_early_is_corrected(self, store: Store) -> None:
        header = suspended(store, "a", callback("c", timeout=5), wait("w", 30))
        written(store, Answering(header.id, "c", "1"), at(2))
        assert list(store.due(at(5), 10)) == [header.id]
        assert written(store, Fire(header.id), at(5)).due_at == at(30)
        assert list(store.due(at(5), 10)) == []

    def test_a_timer_set_and_fired_in_one_batch_fires_once(self, store: Store) -> None:
        header = live(store, "a")
        answers(store, checkpoint(header, wait("w", 10)))
        answers(store, Fire(header.id), Fire(header.id), now=at(10))
        assert story(store, header).count(E.WAIT_SUCCEEDED) == 1

    def test_a_timer_set_earlier_in_the_batch_is_seen_by_a_later_entry(self, store: Store) -> None:
        header = suspended(store, "a", callback("c", timeout=60, heartbeat=5))
        answers(store, Heartbeat(header.id, "c"), Fire(header.id), now=at(4))
        assert [op.due_at for op in store.operations(header.id)] == [at(9)]
        assert written(store, Fire(header.id), at(8)).state is State.SUSPENDED
        assert written(store, Fire(header.id), at(9)).state is State.READY

    def test_the_soonest_of_many_is_due_first(self, store: Store) -> None:
        late, soon, middle = (suspended(store, f"w{s}", wait("w", s)) for s in (30, 10, 20))
        assert list(store.due(at(60), 10)) == [soon.id, middle.id, late.id]
        assert list(store.due(at(60), 2)) == [soon.id, middle.id]

    def test_the_deadline_is_a_timer_too(self, store: Store) -> None:
        header = started(store, "a")
        assert list(store.due(at(3600), 10)) == [header.id]
        assert written(store, Fire(header.id), at(3600)).status is ExecutionStatus.TIMED_OUT
        assert (list(store.due(at(9999), 10)), store.next_due(ORDER)) == ([], None)

    def test_a_delayed_retry_of_a_hosted_function_is_a_time_to_wake_up(self, store: Store) -> None:
        header = live(store, "a")
        left = written(store, settled(header, Outcome(OutcomeStatus.CRASHED, None, OOPS)))
        assert store.next_due(ORDER) == left.ready_at == at(1)
        assert store.next_due((Target("other", "$LATEST"),)) == header.deadline
        assert store.next_due((Target("order", "2"),)) == header.deadline
