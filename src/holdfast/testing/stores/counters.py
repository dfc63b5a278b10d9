"""Counters: a charge changes a shared counter in the same transaction as the write that uses it, or both fail."""

import msgspec
import pytest

from holdfast.model.charges import Charge, Counter
from holdfast.model.codec import loads
from holdfast.model.errors import HoldfastError, LimitReached
from holdfast.model.execution import Birth
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Status, Type, Update
from holdfast.model.verbs import Checkpoint, Checkpointed, Start, Started
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import PROCESSES, OneHandle, Opening, TwoHandles
from holdfast.testing.stores.races import ROUNDS, together
from holdfast.testing.stores.writes import answers, at, checkpoint, forgotten, live, position, step, wanted

MINUTE = at(60)


def charge(amount: int = 1, limit: int | None = 2, key: str = "rate", until: int = MINUTE) -> Charge:
    """A charge of this amount to the counter `key`, which may reach `limit` (None: there is no limit) until the time `until`; then it
    begins anew."""
    return Charge(key, amount, limit, until)


def charged(name: str, *charges: Charge) -> Start:
    """A start with these charges."""
    return msgspec.structs.replace(wanted(name), charges=charges)


def reserving(name: str, reserved: int, *, spends: int = 0, limit: int | None = 10, key: str = "rate") -> Start:
    """A start with a charge that adds `reserved` to the reserved amount of the counter, and `spends` to its spent amount. A negative
    `reserved` ends an earlier reservation of that amount."""
    return charged(name, Charge(key, spends, limit, MINUTE, reserved=reserved))


def amount(store: Store, key: str = "rate") -> int:
    """The amount that a counter has spent; 0 if there is no such counter."""
    return sum(counter.amount for counter in store.counters([key]))


class ChargingSuite(OneHandle):
    """Tests: charges and their limits. They need one handle of the store."""

    def test_a_counter_counts_until_its_limit_and_then_refuses_the_whole_write(self, store: Store) -> None:
        said = answers(store, charged("a", charge()), charged("b", charge()), charged("c", charge()))
        assert [isinstance(answer, Started) for answer in said] == [True, True, False]
        assert isinstance(said[2], LimitReached)
        assert (said[2].key, said[2].limit, said[2].until) == ("rate", 2, MINUTE)
        assert store.find_named("order", "c") is None
        assert store.counters(["rate", "absent"]) == [Counter("rate", 2, MINUTE)]

    def test_a_counter_begins_anew_when_its_time_is_over(self, store: Store) -> None:
        answers(store, charged("a", charge(2)))
        (early,) = answers(store, charged("b", charge()), now=MINUTE - 1)
        (later,) = answers(store, charged("b", charge(until=at(120))), now=MINUTE)
        assert isinstance(early, LimitReached)
        assert isinstance(later, Started)
        assert store.counters(["rate"]) == [Counter("rate", 1, at(120))]

    def test_a_start_that_finds_its_execution_charges_nothing(self, store: Store) -> None:
        answers(store, charged("a", charge()))
        answers(store, charged("a", charge()))
        assert amount(store) == 1

    def test_of_several_charges_all_are_made_or_none(self, store: Store) -> None:
        (refused,) = answers(store, charged("a", charge(key="tokens"), charge(3)))
        assert isinstance(refused, LimitReached)
        assert (amount(store, "tokens"), amount(store)) == (0, 0)

    def test_a_checkpoint_is_written_with_its_charges_and_a_repeated_one_charges_once(self, store: Store) -> None:
        header = live(store, "a")
        write = msgspec.structs.replace(checkpoint(header, step("s"), client="x"), charges=(charge(),))
        first, again = answers(store, write, write)
        assert not isinstance(first, HoldfastError)
        assert first == again
        assert amount(store) == 1
        assert [op.id for op in store.operations(header.id)] == ["s"]

    def test_a_birth_charges_and_one_beyond_a_limit_fails_its_operation_alone(self, store: Store) -> None:
        header = live(store, "a")
        updates = tuple(Update(id=f"i{n}", type=Type.CHAINED_INVOKE, action=Action.START, function_name="order") for n in range(4))
        born = {u.id: Birth(wanted(f"child-{u.id}").header, "{}", charges=(charge(),)) for u in updates}
        beside = step("s", Action.SUCCEED, payload="1")
        committed = store.commit([Checkpoint(position(header), (*updates, beside), None, born)], at(1))
        assert isinstance(committed.answers[0], Checkpointed)
        assert [op.status for op in store.operations(header.id)] == [Status.STARTED] * 2 + [Status.FAILED] * 2 + [Status.SUCCEEDED]
        assert [child.id for child in committed.followed] == [born["i0"].header.id, born["i1"].header.id]
        error = store.operations(header.id)[2].error
        assert error is not None
        assert (error.type, loads(error.data or "")) == ("LimitReached", {"key": "rate", "limit": 2, "until": MINUTE})
        assert amount(store) == 2

    def test_a_birth_of_a_refused_checkpoint_charges_nothing(self, store: Store) -> None:
        header = live(store, "a")
        invoke = Update(id="i", type=Type.CHAINED_INVOKE, action=Action.START, function_name="order")
        born = {"i": Birth(wanted("child").header, "{}", charges=(charge(),))}
        late = position(header)._replace(sequence=7)
        (refused,) = answers(store, Checkpoint(late, (invoke,), None, born))
        assert isinstance(refused, HoldfastError)
        (limited,) = answers(store, Checkpoint(position(header), (invoke,), None, born, (charge(3),)))
        assert isinstance(limited, LimitReached)
        assert (amount(store), list(store.operations(header.id))) == (0, [])

    def test_a_checkpoint_that_is_refused_by_a_limit_leaves_its_token_good(self, store: Store) -> None:
        header = live(store, "a")
        (refused,) = answers(store, msgspec.structs.replace(checkpoint(header, step("s")), charges=(charge(3),)))
        assert isinstance(refused, LimitReached)
        assert list(store.operations(header.id)) == []
        (accepted,) = answers(store, checkpoint(header, step("s", Action.SUCCEED, payload="1")))
        assert not isinstance(accepted, HoldfastError)
        assert amount(store) == 0

    def test_what_was_not_needed_comes_back_and_never_less_than_nothing_is_left(self, store: Store) -> None:
        answers(store, charged("a", charge(2)), charged("b", charge(-1)))
        assert amount(store) == 1
        answers(store, charged("c", charge(-5)))
        assert amount(store) == 0

    def test_what_is_reserved_counts_beside_what_is_spent_until_it_is_settled(self, store: Store) -> None:
        answers(store, reserving("a", 6), reserving("b", 4))
        assert store.counters(["rate"]) == [Counter("rate", 0, MINUTE, 10)]
        (refused,) = answers(store, reserving("c", 1))
        assert isinstance(refused, LimitReached)
        assert (refused.is_curable, refused.spent, refused.reserved) == (True, 0, 10)
        answers(store, reserving("a settled", -6, spends=3, limit=None))
        assert store.counters(["rate"]) == [Counter("rate", 3, MINUTE, 4)]
        (room,) = answers(store, reserving("c", 3))
        assert isinstance(room, Started)

    def test_a_refusal_says_whether_a_settlement_can_make_room(self, store: Store) -> None:
        answers(store, reserving("a", 5), reserving("b", 0, spends=4))
        said = answers(store, reserving("c", 6), reserving("d", 7))
        assert [isinstance(answer, LimitReached) and answer.is_curable for answer in said] == [True, False]
        assert store.counters(["rate"]) == [Counter("rate", 4, MINUTE, 5)]

    def test_a_settlement_may_go_beyond_the_limit_by_what_was_used_beyond_its_reservation(self, store: Store) -> None:
        answers(store, reserving("a", 10), reserving("a settled", -10, spends=12, limit=None))
        assert store.counters(["rate"]) == [Counter("rate", 12, MINUTE, 0)]

    def test_a_closed_key_refuses_until_its_end_which_only_moves_later(self, store: Store) -> None:
        def close(until: int) -> Charge:
            return Charge("shop.example", 1, None, until, extends=True)

        answers(store, charged("a", close(at(30))), charged("b", close(at(20))))
        ask = charge(0, 0, "shop.example")
        (refused,) = answers(store, charged("c", ask), now=at(29))
        (open_again,) = answers(store, charged("c", ask), now=at(30))
        assert isinstance(refused, LimitReached)
        assert refused.until == at(30)
        assert isinstance(open_again, Started)

    def test_a_write_that_is_taken_back_takes_its_charges_back(self, store: Store) -> None:
        asked = charged("a", charge())
        claimed = msgspec.structs.replace(asked, by=Claimant("here", "here-1"))
        bad = Checkpoint(checkpoint(live(store, "z")).at, (step("s", Action.RETRY),), charges=(charge(),))
        said = answers(store, claimed, bad)
        assert [isinstance(answer, HoldfastError) for answer in said] == [False, True]
        assert amount(store) == 1

    def test_counters_whose_time_is_over_are_forgotten(self, store: Store) -> None:
        answers(store, charged("a", charge(), charge(key="day", until=at(1000))))
        forgotten(store, MINUTE)
        assert [counter.key for counter in store.counters(["rate", "day"])] == ["day"]


class SharedChargingSuite(TwoHandles):
    """Tests: charges of several processes. They need a handle for each process."""

    def test_a_charge_is_seen_by_the_others_and_after_a_restart(self, store: Store, other: Store, opening: Opening) -> None:
        answers(store, charged("a", charge()))
        answers(other, charged("b", charge()))
        assert isinstance(answers(store, charged("c", charge()))[0], LimitReached)
        store.close()
        assert amount(opening("again")) == 2

    @pytest.mark.parametrize("keys", [("one",), ("one", "two"), ("two", "one")])
    def test_whoever_charges_at_once_the_limit_holds(self, stores: list[Store], keys: tuple[str, ...]) -> None:
        limit = PROCESSES * ROUNDS // 2

        def act(n: int, store: Store) -> int:
            order = keys if n % 2 else keys[::-1]
            charges = tuple(charge(1, limit, key) for key in order)
            said = [answers(store, charged(f"{n}-{at}", *charges))[0] for at in range(ROUNDS)]
            return sum(isinstance(answer, Started) for answer in said)

        assert sum(together(stores, act)) == limit
        assert [amount(stores[0], key) for key in keys] == [limit] * len(keys)

    def test_whatever_is_reserved_and_settled_at_once_the_limit_holds_and_the_sums_are_right(self, stores: list[Store]) -> None:
        def act(n: int, store: Store) -> int:
            used = 0
            for k in range(ROUNDS):
                (answer,) = answers(store, reserving(f"{n}-{k}", 7, limit=100))
                (now,) = store.counters(["rate"])
                assert now.amount + now.reserved <= 100
                if isinstance(answer, Started):
                    answers(store, reserving(f"{n}-{k} settled", -7, spends=k % 3, limit=None))
                    used += k % 3
            return used

        spent = sum(together(stores, act))
        assert spent > 50
        assert stores[0].counters(["rate"]) == [Counter("rate", spent, MINUTE, 0)]
