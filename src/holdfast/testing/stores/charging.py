"""Charges: counters that executions share move with the write that uses them up, or neither does."""

import msgspec
import pytest

from holdfast.model.charging import Charge, Counter
from holdfast.model.errors import HoldfastError, LimitReached
from holdfast.model.life import Claimant
from holdfast.model.operations import Action
from holdfast.model.verbs import Checkpoint, Start, Started
from holdfast.store.seam import Store
from holdfast.testing.stores.handles import OneHandle, Opening, TwoHandles
from holdfast.testing.stores.races import PROCESSES, ROUNDS, together
from holdfast.testing.stores.writes import LEASE, answers, at, checkpoint, forgotten, live, step, wanted

MINUTE = at(60)


def charge(amount: int = 1, limit: int | None = 2, key: str = "rate", until: int = MINUTE) -> Charge:
    """A charge of the suite's counter."""
    return Charge(key, amount, limit, until)


def charged(name: str, *charges: Charge) -> Start:
    """A start that charges."""
    return msgspec.structs.replace(wanted(name), charges=charges)


def amount(store: Store, key: str = "rate") -> int:
    """Where a counter stands."""
    return sum(counter.amount for counter in store.counters([key]))


class ChargingSuite(OneHandle):
    """What a charge does. One handle."""

    def test_a_counter_counts_until_its_limit_and_then_refuses_the_whole_write(self, store: Store) -> None:
        said = answers(store, charged("a", charge()), charged("b", charge()), charged("c", charge()))
        assert [isinstance(answer, Started) for answer in said] == [True, True, False]
        assert isinstance(said[2], LimitReached)
        assert (said[2].key, said[2].limit, said[2].until) == ("rate", 2, MINUTE)
        assert store.find_named("order", "c") is None
        assert store.counters(["rate", "nobody's"]) == [Counter("rate", 2, MINUTE)]

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
    """Charges of several processes."""

    def test_a_charge_is_seen_by_the_others_and_after_a_restart(self, store: Store, other: Store, opening: Opening) -> None:
        answers(store, charged("a", charge()))
        answers(other, charged("b", charge()))
        assert isinstance(answers(store, charged("c", charge()))[0], LimitReached)
        store.close()
        assert amount(opening("again")) == 2

    @pytest.mark.parametrize("keys", [("one",), ("one", "two"), ("two", "one")])
    def test_whoever_charges_at_once_the_limit_holds(self, opening: Opening, keys: tuple[str, ...]) -> None:
        stores = [opening(f"p{n}") for n in range(PROCESSES)]
        for n, store in enumerate(stores):
            store.join(f"p{n}", LEASE)
        limit = PROCESSES * ROUNDS // 2

        def act(n: int, store: Store) -> int:
            order = keys if n % 2 else keys[::-1]
            charges = tuple(charge(1, limit, key) for key in order)
            said = [answers(store, charged(f"{n}-{at}", *charges))[0] for at in range(ROUNDS)]
            return sum(isinstance(answer, Started) for answer in said)

        assert sum(together(stores, act)) == limit
        assert [amount(stores[0], key) for key in keys] == [limit] * len(keys)
