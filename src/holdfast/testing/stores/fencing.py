"""Fencing: only the live invocation may write, each token is used once, and a repeated request gets the same answer."""

from holdfast.model.errors import InvalidParameter, InvalidToken, LeaseLost
from holdfast.model.execution import Execution
from holdfast.model.history import EventType as E
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpointed
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import OneHandle, TwoHandles
from holdfast.testing.stores.writes import after, answers, callback, checkpoint, claim, live, now_at, started, step, story, written


class FencingSuite(OneHandle):
    """Tests: who may write. They need one handle of the store."""

    def test_a_taken_over_writer_is_refused_and_spoils_nobody(self, store: Store) -> None:
        stale, fresh = live(store, "stale", runner="gone"), live(store, "fresh")
        taken = written(store, claim(stale, "here", "gone"))
        refused, accepted, successor = answers(
            store, checkpoint(stale, step("s")), checkpoint(fresh, step("s")), checkpoint(taken, step("mine"))
        )
        assert isinstance(refused, LeaseLost)
        assert isinstance(accepted, Checkpointed)
        assert isinstance(successor, Checkpointed)
        assert [op.id for op in store.operations(stale.id)] == ["mine"]

    def test_a_takeover_tells_of_the_dead_invocation_with_the_claim(self, store: Store) -> None:
        header = live(store, "a", runner="gone")
        taken = written(store, claim(header, "here", "gone"))
        (line,) = store.history(header.id, after=1)
        assert (taken.epoch, taken.deaths, line.event.type) == (2, 1, E.INVOCATION_COMPLETED)
        assert "Runtime.ExitError" in (line.event.payload or "")

    def test_two_claims_of_one_batch_have_one_winner(self, store: Store) -> None:
        header = started(store, "a")
        first, second = answers(store, claim(header, "here"), claim(header, "there"))
        assert isinstance(first, Execution)
        assert isinstance(second, LeaseLost)
        assert now_at(store, header).runner == "here"

    def test_a_used_token_is_refused(self, store: Store) -> None:
        header = live(store, "a")
        first, again = answers(store, checkpoint(header, step("s")), checkpoint(header, step("t")))
        assert isinstance(first, Checkpointed)
        assert isinstance(again, InvalidToken)

    def test_a_write_on_a_moved_revision_is_applied_and_told_what_moved(self, store: Store) -> None:
        seen = live(store, "a", callback("c"))
        written(store, Answering(seen.id, "c", "1"))
        (answer,) = answers(store, checkpoint(seen, step("s")))
        assert isinstance(answer, Checkpointed)
        assert [(op.id, op.status) for op in answer.operations] == [("c", Status.SUCCEEDED), ("s", Status.STARTED)]

    def test_a_repeated_request_is_recognised_within_a_batch_and_after_it(self, store: Store) -> None:
        asked = checkpoint(live(store, "a"), step("s"), client="c-1")
        first, second = answers(store, asked, asked)
        (third,) = answers(store, asked)
        assert first == second == third
        assert [line.event.type for line in store.history(asked.execution)] == [E.EXECUTION_STARTED, E.STEP_STARTED]


class SharedFencingSuite(TwoHandles):
    """Tests: who may write when another process has written since. They need two handles of the store."""

    def test_a_stop_by_the_other_refuses_the_live_invocation(self, store: Store, other: Store) -> None:
        header = live(store, "a")
        written(other, Stop(header.id))
        (refused,) = answers(store, checkpoint(header, step("s")))
        assert isinstance(refused, LeaseLost)
        assert story(store, header)[-1] is E.EXECUTION_STOPPED

    def test_a_writer_that_the_other_took_over_is_refused(self, store: Store, other: Store) -> None:
        header = live(store, "a", step("s"))
        taken = written(other, claim(header, "there", "here"))
        (refused,) = answers(store, checkpoint(header, step("t")))
        assert isinstance(refused, LeaseLost)
        after(other, taken, step("s", Action.SUCCEED))
        assert [(op.id, op.status) for op in store.operations(header.id)] == [("s", Status.SUCCEEDED)]

    def test_what_comes_back_from_the_other_is_read_anew(self, store: Store, other: Store) -> None:
        """An execution is taken over, continued and taken back: state cached before the takeover must not be used."""
        header = live(store, "a", step("s"))
        taken = after(other, written(other, claim(header, "there", "here")), step("s", Action.SUCCEED, payload="1"))
        back = written(store, claim(taken, "here", "there"))
        (refused,) = answers(store, checkpoint(back, step("s", Action.SUCCEED, payload="2")))
        assert isinstance(refused, InvalidParameter)
        assert [op.result for op in store.operations(header.id)] == ["1"]

    def test_two_handles_claim_an_execution_once(self, store: Store, other: Store) -> None:
        header = started(store, "a")
        written(store, claim(header, "here"))
        (refused,) = answers(other, claim(header, "there"))
        assert isinstance(refused, LeaseLost)
