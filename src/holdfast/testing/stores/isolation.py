"""Isolation: an invalid entry of a batch fails alone. Whatever is wrong with it, the other entries are written once, in order."""

from random import Random

import msgspec
import pytest

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution
from holdfast.model.history import EventType as E
from holdfast.model.operations import Action
from holdfast.model.verbs import Answer, Checkpointed, Start, Write
from holdfast.store.seam import Store
from holdfast.testing.stores.bad_entries import FIELDS, VALUES, WAITING, Make, made_live
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import after, answers, checkpoint, claim, now_at, step, story

_PAIRS = 60
"""For each kind of entry, about this many pairs of a field and a wrong value are tested, and one more pair for each wrong value."""
_EVERY = 4
"""The number of wrong entries for each good execution."""


class IsolationSuite(OneHandle):
    """Tests: invalid entries among valid ones. They need one handle of the store."""

    @pytest.mark.parametrize("kind", FIELDS)
    def test_an_entry_that_is_wrong_in_any_way_is_refused_alone(self, store: Store, kind: str) -> None:
        makes = sampled(kind)
        victims = made_live(store, [f"wrong-{number}" for number in range(len(makes))], WAITING)
        good = made_live(store, [f"good-{number}" for number in range(len(makes) // _EVERY)])
        wrong = [make(victim, value) for victim, (make, value) in zip(victims, makes, strict=True)]
        judge(store, wrong, victims, good)

    def test_what_an_entry_brings_to_others_goes_with_it_when_it_is_refused(self, store: Store) -> None:
        """If a child cannot be written, its parent's checkpoint is refused too, and no other entry."""
        (parent,), good = made_live(store, ["parent"]), made_live(store, ["good-0", "good-1"])
        judge(store, [FIELDS["children"]["terms"](parent, VALUES["int"])], [parent], good)
        assert store.operations(parent.id) == []

    def test_an_execution_goes_on_after_an_entry_of_it_was_refused(self, store: Store) -> None:
        (header,) = made_live(store, ["a"])
        refused, accepted = answers(store, FIELDS["updates"]["error"](header, VALUES["hostile"]), checkpoint(header, step("s")))
        assert isinstance(refused, HoldfastError)
        assert isinstance(accepted, Checkpointed)
        assert story(store, header) == [E.EXECUTION_STARTED, E.STEP_STARTED]

    def test_a_wrong_start_leaves_its_name_and_its_id_free(self, store: Store) -> None:
        bad = FIELDS["starts"]["started_at"](made_live(store, ["a"])[0], VALUES["beyond 64 bits"])
        assert isinstance(bad, Start)
        right = msgspec.structs.replace(bad, header=msgspec.structs.replace(bad.header, started_at=0))
        refused, accepted = answers(store, bad, right)
        assert isinstance(refused, HoldfastError)
        assert not isinstance(accepted, HoldfastError)
        assert store.find(right.header.id) is not None


def sampled(kind: str) -> list[tuple[Make, object]]:
    """Pairs of a function that makes an entry of this kind, and a wrong value for it. Every field is in some pairs, and every wrong value
    too. The choice is always the same."""
    chance, members = Random(kind), list(FIELDS[kind])
    each = max(1, _PAIRS // len(members))
    pairs = {(member, value) for member in members for value in chance.sample(list(VALUES), each)}
    pairs |= {(chance.choice(members), value) for value in VALUES}
    mixed = sorted(pairs)
    chance.shuffle(mixed)
    return [(FIELDS[kind][member], VALUES[value]) for member, value in mixed]


def judge(store: Store, wrong: list[Write], victims: list[Execution], good: list[Execution]) -> None:
    """Write a batch of the wrong entries, mixed with two good entries for each execution in `good`. The good entries must be written once,
    in order. A wrong entry that is refused must leave nothing; `victims` are the executions of the wrong entries."""
    before = [_left_of(store, write, victim) for write, victim in zip(wrong, victims, strict=True)]
    batch, first, second = _mixed(wrong, good)
    said = answers(store, *batch)
    assert len(said) == len(batch)
    for header, one, two in zip(good, first, second, strict=True):
        _written_once(store, header, said[one], said[two])
    for write, victim, then in zip(wrong, victims, before, strict=True):
        answer = said[next(place for place, entry in enumerate(batch) if entry is write)]
        now = _left_of(store, write, victim)  # an accepted entry can be read
        if isinstance(answer, HoldfastError):
            assert now == then, "an entry was refused, and something of it is left"


def _mixed(wrong: list[Write], good: list[Execution]) -> tuple[list[Write], list[int], list[int]]:
    """A batch of the wrong entries, mixed with two writes for each good execution; then the positions of the first writes in the batch, and
    those of the second writes."""
    batch: list[Write] = []
    first, second = [0] * len(good), [0] * len(good)
    gap = max(1, len(wrong) // max(1, len(good)))
    for number in range(max(len(wrong), len(good) * gap) + gap):
        place, rest = divmod(number, gap)
        if rest == 0 and place < len(good):
            first[place] = len(batch)
            batch.append(checkpoint(good[place], step("s")))
        if number < len(wrong):
            batch.append(wrong[number])
        if rest == gap - 1 and place < len(good):
            second[place] = len(batch)
            done = msgspec.structs.replace(good[place], sequence=good[place].sequence + 1, revision=good[place].revision + 1)
            batch.append(checkpoint(done, step("s", Action.SUCCEED, payload='"done"')))
    return batch, first, second


def _written_once(store: Store, header: Execution, one: Answer | HoldfastError, two: Answer | HoldfastError) -> None:
    assert isinstance(one, Checkpointed), f"the first write of a neighbour: {one!r}"
    assert isinstance(two, Checkpointed), f"the second write of a neighbour: {two!r}"
    assert story(store, header) == [E.EXECUTION_STARTED, E.STEP_STARTED, E.STEP_SUCCEEDED], "once each, and in order"
    current = now_at(store, header)
    assert (current.sequence, current.revision) == (header.sequence + 2, header.revision + 2)
    assert [op.result for op in store.operations(header.id)] == ['"done"']
    after(store, current, step("t"))  # the cached state equals the written state
    answers(store, claim(header, "there", "here"))


def _left_of(store: Store, write: Write, victim: Execution) -> object:
    """What the store has of everything that this entry may have written."""
    if not isinstance(write, Start):
        return store.snapshot(victim.id)
    asked = write.header
    by_id = store.find(asked.id) if type(asked.id) is str else None
    by_name = store.find_named(asked.function, asked.name) if type(asked.function) is type(asked.name) is str else None
    return by_id, by_name
