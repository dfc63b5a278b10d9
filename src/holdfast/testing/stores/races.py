"""Races: many writes at the same time. In whatever order the database takes them, each fact has one owner and nothing is lost.

The processes are threads with their own handles, which begin at the same moment. A backend that passes may still have races; a backend
that fails has one.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from holdfast.model.errors import ExecutionAlreadyStarted, HoldfastError, LeaseLost
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.history import EventType as E
from holdfast.model.operations import Status
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Answer, Started
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.chained_writes import birth, invoking
from holdfast.testing.stores.opened_stores import PROCESSES, TwoHandles
from holdfast.testing.stores.writes import (
    answers,
    at,
    callback,
    checkpoint,
    claim,
    id_at,
    live,
    names,
    now_at,
    settled,
    started,
    story,
    suspended,
    wanted,
    written,
)

ROUNDS = 25
TOLD = 2 * ROUNDS * (PROCESSES - 1)
RaceAnswers = list[Answer | HoldfastError]
T = TypeVar("T")


def together(stores: list[Store], act: Callable[[int, Store], T]) -> list[T]:
    """Run `act(n, store)` on all stores at the same moment, each in a thread of its own. Returns the results in the order of the stores."""
    gate = threading.Barrier(len(stores))

    def run(n: int) -> T:
        gate.wait()
        return act(n, stores[n])

    with ThreadPoolExecutor(len(stores)) as pool:
        return list(pool.map(run, range(len(stores))))


class RaceSuite(TwoHandles):
    """Tests: several handles of one store write at the same moment. A handle stands for a process."""

    def test_a_name_that_many_want_at_once_belongs_to_one(self, stores: list[Store]) -> None:
        def start(n: int, store: Store) -> RaceAnswers:
            return [answer for k in range(30) for answer in answers(store, *(wanted(f"n{m}") for m in range(k, k + 5)))]

        said = [answer for each in together(stores, start) for answer in each]
        headers = [answer.header for answer in said if isinstance(answer, Started)]
        assert len(headers) == len(said) == PROCESSES * 30 * 5
        assert sum(answer.created for answer in said if isinstance(answer, Started)) == 34
        assert len({header.id for header in headers}) == len({header.name for header in headers}) == 34
        assert len(stores[0].list(Filter(limit=1000))) == 34

    def test_a_name_that_many_want_with_different_inputs_is_refused_to_all_but_one(self, stores: list[Store]) -> None:
        said = together(stores, lambda n, store: answers(store, wanted("a", str(n)), wanted(f"mine-{n}")))
        firsts = [type(first) for first, _ in said]
        assert (firsts.count(Started), firsts.count(ExecutionAlreadyStarted)) == (1, PROCESSES - 1)
        assert [type(second) for _, second in said] == [Started] * PROCESSES, "a refused entry does not affect others"

    def test_an_execution_that_many_claim_at_once_is_claimed_once(self, stores: list[Store]) -> None:
        headers = [started(stores[0], f"n{n}") for n in range(40)]

        def take(n: int, store: Store) -> RaceAnswers:
            order = headers if n % 2 else headers[::-1]  # opposite orders: two processes that lock row by row would deadlock
            return answers(store, *(claim(header, f"p{n}") for header in order))

        said = [answer for each in together(stores, take) for answer in each]
        assert sum(isinstance(answer, Execution) for answer in said) == 40
        assert sum(isinstance(answer, LeaseLost) for answer in said) == 40 * (PROCESSES - 1)
        held = [set(store.held(f"p{n}")) for n, store in enumerate(stores)]
        assert sum(map(len, held)) == len(set[str]().union(*held)) == 40

    def test_events_have_no_gaps_when_many_write_to_the_same_executions(self, stores: list[Store]) -> None:
        count = 12
        asked = [callback(f"c{p}-{k}") for p in range(PROCESSES) for k in range(count)]
        headers = [suspended(stores[0], f"n{n}", *asked) for n in range(3)]

        def answer(n: int, store: Store) -> RaceAnswers:
            order = headers if n % 2 else headers[::-1]
            return [said for k in range(count) for said in answers(store, *(Answering(h.id, f"c{n}-{k}", "1") for h in order), now=at(2))]

        said = [each for some in together(stores, answer) for each in some]
        assert [each for each in said if isinstance(each, HoldfastError)] == []
        for header in headers:
            assert story(stores[0], header).count(E.CALLBACK_SUCCEEDED) == PROCESSES * count
            assert {op.status for op in stores[0].operations(header.id)} == {Status.SUCCEEDED}

    def test_a_parent_that_is_stopped_while_its_children_end_leaves_nothing_open(self, stores: list[Store]) -> None:
        """One process stops the parent, which also changes its children. At the same moment the others end the children, which also
        changes the parent. So the two kinds of writes take the executions in opposite order."""
        for attempt in range(8):
            parent = live(stores[0], f"parent-{attempt}", runner="p0")
            taken = [child_of(stores[0], parent, n, claimed_by=stores[n]) for n in range(1, PROCESSES)]

            def act(n: int, store: Store, parent: Execution = parent, taken: list[Execution] = taken) -> RaceAnswers:
                if n == 0:
                    return answers(store, Stop(parent.id))
                outcome = OutcomeStatus.CONTINUED if n == 1 else OutcomeStatus.SUCCEEDED
                ending = settled(taken[n - 1], Outcome(outcome, "[2]"))
                return answers(store, msgspec.structs.replace(ending, successor=id_at(at(1))))

            together(stores, act)
            assert names(stores[0].list(Filter(statuses=(ExecutionStatus.RUNNING,)))) == []
            assert now_at(stores[0], parent).status is ExecutionStatus.STOPPED
            for header in (parent, *stores[0].list(Filter(parent=parent.id))):
                story(stores[0], header)

    def test_who_has_seen_a_signals_number_never_finds_a_smaller_one_later(self, stores: list[Store]) -> None:
        stores[0].subscribe("billing")
        cursor = stores[0].take_delivery("billing", "p0")
        assert cursor is not None
        seen, done = list[int](), list[int]()

        def act(n: int, store: Store) -> None:
            if n:
                try:
                    for k in range(ROUNDS):
                        written(store, Stop(started(store, f"n{n}-{k}").id))
                finally:
                    done.append(n)
                return
            last = False
            while not last:
                last = len(done) == PROCESSES - 1
                while page := store.signals("billing", "p0", seen[-1] if seen else cursor, 7):
                    seen.extend(signal.number for signal in page)
                    assert len(seen) <= TOLD, "some were told twice"

        together(stores, act)
        there = store_signals(stores[0], cursor)
        assert len(there) == TOLD
        assert seen == there, "none was skipped"


def store_signals(store: Store, after: int) -> list[int]:
    """The numbers of all signals after the number `after`."""
    found = store.signals("billing", "p0", after, 10_000)
    assert found is not None
    return [signal.number for signal in found]


def child_of(store: Store, parent: Execution, n: int, claimed_by: Store) -> Execution:
    """Write a child that the operation `i` + `n` of the parent starts, and let the process `p` + `n` claim it through the handle
    `claimed_by`. Returns the child's header."""
    child = birth(parent, parent_operation=f"i{n}")
    current = now_at(store, parent)
    update = msgspec.structs.replace(invoking(current, child).updates[0], id=f"i{n}")
    answers(store, msgspec.structs.replace(checkpoint(current, update), children={f"i{n}": child}))
    return written(claimed_by, claim(child.header, f"p{n}"))
