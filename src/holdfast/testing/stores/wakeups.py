"""Wake-ups: a suspended execution is woken, at whatever moment the answer arrives; no wake-up is lost."""

from holdfast.model.execution import Outcome, OutcomeStatus, State
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Answering
from holdfast.model.verbs import Checkpointed
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import OneHandle, TwoHandles
from holdfast.testing.stores.writes import (
    LEASE,
    ORDER,
    T0,
    answers,
    at,
    callback,
    checkpoint,
    claim,
    live,
    now_at,
    settled,
    started,
    step,
    suspended,
    wait,
    written,
)


class WakingSuite(OneHandle):
    """Tests: suspending and waking. They need one handle of the store."""

    def test_no_wake_up_is_lost_between_the_last_look_and_the_suspension(self, store: Store) -> None:
        header = live(store, "a", callback("c"), callback("still open"))
        written(store, Answering(header.id, "c", "1"))
        left = written(store, settled(header, Outcome(OutcomeStatus.PENDING), seen=header.revision))
        assert left.state is State.READY
        assert list(store.claimable(ORDER, (), T0, 10)) == [header.id]

    def test_no_wake_up_is_lost_within_one_batch(self, store: Store) -> None:
        header = live(store, "a", callback("c"), callback("still open"))
        answers(store, Answering(header.id, "c", "1"), settled(header, Outcome(OutcomeStatus.PENDING)))
        assert now_at(store, header).state is State.READY
        other = live(store, "b", callback("c"), callback("still open"))
        answers(store, settled(other, Outcome(OutcomeStatus.PENDING)), Answering(other.id, "c", "1"))
        assert now_at(store, other).state is State.READY

    def test_a_suspended_execution_is_nobodys(self, store: Store) -> None:
        header = suspended(store, "a", wait("w"))
        assert (header.runner, list(store.claimable(ORDER, (), at(2), 10)), set(store.held("here"))) == (None, [], set())

    def test_the_next_invocation_sees_all_operations(self, store: Store) -> None:
        header = suspended(store, "a", callback("c"), step("s", Action.SUCCEED, payload="1"))
        written(store, Answering(header.id, "c", "2"), at(2))
        written(store, claim(header, "here"), at(3))
        assert [(op.id, op.status, op.result) for op in store.operations(header.id)] == [
            ("c", Status.SUCCEEDED, "2"),
            ("s", Status.SUCCEEDED, "1"),
        ]

    def test_own_writes_are_no_news(self, store: Store) -> None:
        store.changed()
        live(store, "a")
        store.renew("here", LEASE)
        assert not store.changed()


class SharedWakingSuite(TwoHandles):
    """Tests: wake-ups that another process causes. They need two handles of the store."""

    def test_a_write_of_the_other_is_news_once(self, store: Store, other: Store) -> None:
        started(other, "a")
        assert store.changed()
        assert not store.changed()
        assert not other.changed()

    def test_a_write_of_the_other_is_news_even_if_we_wrote_since(self, store: Store, other: Store) -> None:
        started(other, "a")
        started(store, "b")
        assert store.changed()
        assert not store.changed()

    def test_a_callback_answered_by_the_other_is_seen_by_the_live_invocation(self, store: Store, other: Store) -> None:
        header = live(store, "a", callback("c"))
        (op,) = store.operations(header.id)
        assert op.callback_id is not None
        written(other, Answering(*other.seal.callback_target(op.callback_id), "1"))
        (answer,) = answers(store, checkpoint(header, step("s")))
        assert isinstance(answer, Checkpointed)
        assert [(op.id, op.status) for op in answer.operations] == [("c", Status.SUCCEEDED), ("s", Status.STARTED)]

    def test_a_callback_answered_by_the_other_wakes_a_suspended_execution(self, store: Store, other: Store) -> None:
        header = suspended(store, "a", callback("c"))
        written(other, Answering(header.id, "c", "1"), at(2))
        assert store.changed()
        assert list(store.claimable(ORDER, (), at(2), 10)) == [header.id]

    def test_no_wake_up_by_the_other_is_lost(self, store: Store, other: Store) -> None:
        header = live(store, "a", callback("c"), callback("still open"))
        written(other, Answering(header.id, "c", "1"))
        assert written(store, settled(header, Outcome(OutcomeStatus.PENDING))).state is State.READY
