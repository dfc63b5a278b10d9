"""Shared stores: what a store keeps after its handles are closed, and what each of several processes sees of the others."""

from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError
from holdfast.model.history import EventType as E
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpointed, Started
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import Opening, TwoHandles
from holdfast.testing.stores.writes import (
    LEASE,
    ORDER,
    T0,
    after,
    answers,
    at,
    callback,
    checkpoint,
    claim,
    id_at,
    live,
    now_at,
    started,
    step,
    story,
    suspended,
    wanted,
    written,
)


class SharingSuite(TwoHandles):
    """Tests: after reopening, and while another handle is open. They need two handles of the store."""

    def test_everything_is_there_after_reopening(self, opening: Opening, store: Store) -> None:
        header = suspended(store, "a", callback("c", 60), step("s", Action.SUCCEED, payload="1"))
        before = (store.find(header.id), list(store.operations(header.id)), list(store.history(header.id)), store.input(header.id))
        store.close()
        again = opening("later")
        assert before == (again.find(header.id), list(again.operations(header.id)), list(again.history(header.id)), again.input(header.id))

    def test_a_token_made_before_is_good_after_reopening(self, opening: Opening, store: Store) -> None:
        token = store.seal.token(Position(id_at(T0), 1, 2, 3))
        store.close()
        assert opening("later").seal.position(token) == store.seal.position(token)

    def test_a_repeated_request_is_recognised_after_reopening(self, opening: Opening, store: Store) -> None:
        asked = checkpoint(live(store, "a"), callback("c"), client="c-1")
        (first,) = answers(store, asked)
        store.close()
        (again,) = answers(opening("later"), asked)
        assert again == first

    def test_a_repeated_request_is_recognised_after_reopening_and_a_takeover(self, opening: Opening, store: Store) -> None:
        header = live(store, "a")
        asked = checkpoint(header, step("s"), client="c-1")
        (first,) = answers(store, asked)
        store.close()
        later = opening("later")
        written(later, claim(header, "later", "here"))
        (again,) = answers(later, asked)
        assert isinstance(first, Checkpointed)
        assert isinstance(again, Checkpointed)
        assert again.token == first.token

    def test_a_fresh_claim_goes_on_after_reopening(self, opening: Opening, store: Store) -> None:
        header = live(store, "a", step("s"))
        store.close()
        later = opening("later")
        later.join("later", LEASE)
        assert later.dead(T0) == {"here"}
        assert list(later.claimable(ORDER, later.dead(T0), T0, 10)) == [header.id]
        taken = written(later, claim(header, "later", *later.dead(T0)))
        assert (taken.runner, taken.epoch, taken.deaths) == ("later", header.epoch + 1, 1)
        after(later, taken, step("s", Action.SUCCEED, payload="1"))
        assert [op.status for op in later.operations(header.id)] == [Status.SUCCEEDED]

    def test_each_sees_what_the_other_wrote(self, store: Store, other: Store) -> None:
        header = live(store, "a", step("s"))
        assert other.find(header.id) == store.find(header.id)
        assert list(other.operations(header.id)) == list(store.operations(header.id))

    def test_a_name_taken_by_the_other_is_taken(self, store: Store, other: Store) -> None:
        first = started(store, "a")
        same, conflict = answers(other, wanted("a"), wanted("a", "other input"))
        assert same == Started(first, False)
        assert isinstance(conflict, ExecutionAlreadyStarted)

    def test_event_numbers_have_no_gaps_when_two_write_in_turn(self, store: Store, other: Store) -> None:
        header = live(store, "a", *(callback(f"c{n}") for n in range(4)))
        for n, writer in enumerate((other, store, other, store)):
            written(writer, Answering(header.id, f"c{n}", str(n)), at(n))
            header = after(store, now_at(store, header), step(f"s{n}"), now=at(n))
        assert story(store, header) == [
            E.EXECUTION_STARTED, *[E.CALLBACK_STARTED] * 4, *[E.CALLBACK_SUCCEEDED, E.STEP_STARTED] * 4,
        ]  # fmt: skip

    def test_in_one_batch_each_entry_sees_its_execution_as_the_other_has_left_it(self, store: Store, other: Store) -> None:
        same, answered, stopped, new = (live(store, name, callback("c")) for name in ("same", "answered", "stopped", "new"))
        written(other, Answering(answered.id, "c", "yes"))
        written(other, Stop(stopped.id))
        started(other, "for a new data version")
        writes = [checkpoint(header, step("s")) for header in (same, answered, stopped, new)]
        first, second, refused, last = answers(store, *writes)
        assert [type(answer) for answer in (first, second, last)] == [Checkpointed] * 3
        assert isinstance(refused, HoldfastError)
        assert story(store, same) == story(store, new) == [E.EXECUTION_STARTED, E.CALLBACK_STARTED, E.STEP_STARTED]
        assert story(store, answered) == [E.EXECUTION_STARTED, E.CALLBACK_STARTED, E.CALLBACK_SUCCEEDED, E.STEP_STARTED]
        assert E.STEP_STARTED not in story(store, stopped)

    def test_a_runner_whose_process_left_in_order_is_dead_at_once(self, store: Store, other: Store) -> None:
        live(store, "a", runner="there")
        assert store.dead(T0) == frozenset()
        other.close()
        assert store.dead(T0) == {"there"}
