"""Graphs: a store keeps the text of a pipeline's graph as long as an execution names it, and not longer."""

import contextlib

import msgspec
import pytest

from holdfast.model.charges import Charge
from holdfast.model.errors import ExecutionAlreadyStarted, InvalidParameter, LimitReached
from holdfast.model.execution import Birth, Execution, GraphText, Outcome, OutcomeStatus, State, Terms, graph_text
from holdfast.model.life import Claimant
from holdfast.model.outside import Stop
from holdfast.model.verbs import Start, Started
from holdfast.store.seam import Filter, Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.chained_writes import birth, invoking
from holdfast.testing.stores.opened_stores import PROCESSES, OneHandle, Opening, TwoHandles
from holdfast.testing.stores.races import ROUNDS, together
from holdfast.testing.stores.writes import (
    DAY,
    T0,
    answers,
    at,
    claim,
    closed,
    forgotten,
    id_at,
    live,
    now_at,
    settled,
    started,
    wanted,
    written,
)

GRAPH = graph_text('{"nodes":["ä",1]}')
OTHER = graph_text('{"nodes":[]}')
LATER = T0 + 2 * DAY


def running(name: str, graph: GraphText | None = GRAPH, days: int = 1, **set_to: object) -> Start:
    """A start of an execution that runs a graph and is kept for this many days after its end."""
    return msgspec.structs.replace(wanted(name, "{}", terms=Terms(3600, days), **set_to), graph=graph)


def begun(store: Store, name: str, graph: GraphText | None = GRAPH, days: int = 1) -> Execution:
    """Start an execution that runs a graph, and return it."""
    return written(store, running(name, graph, days))


def ended(store: Store, name: str, graph: GraphText | None = GRAPH, days: int = 1) -> Execution:
    """Start an execution that runs a graph, stop it, and return it."""
    return written(store, Stop(begun(store, name, graph, days).id))


def carrying(parent: Execution, graph: GraphText) -> Birth:
    """A child whose start also writes the text of a graph."""
    return msgspec.structs.replace(birth(parent), graph=graph)


def heir_of(store: Store, header: Execution) -> Execution:
    """End the execution as continued, and return the execution that continues it."""
    claimed = written(store, claim(header, "here"))
    ending = settled(claimed, Outcome(OutcomeStatus.CONTINUED, "[2]"))
    heir = id_at(at(3))
    written(store, msgspec.structs.replace(ending, successor=heir))
    found = store.find(heir)
    assert found is not None
    return found


class GraphSuite(OneHandle):
    """Tests: graphs that executions name. They need one handle of the store."""

    def test_a_graph_is_there_with_the_execution_that_brings_it(self, store: Store) -> None:
        assert store.graph(GRAPH.id) is None
        (answer,) = answers(store, running("a"))
        assert isinstance(answer, Started)
        assert answer.header.graph == GRAPH.id
        assert now_at(store, answer.header) == answer.header
        assert store.graph(GRAPH.id) == GRAPH.text
        assert (store.graph(OTHER.id), store.graph(""), store.graph("\0")) == (None, None, None)

    def test_an_execution_without_a_graph_names_none(self, store: Store) -> None:
        assert started(store, "a").graph is None

    def test_a_graph_may_be_large_and_hold_any_character(self, store: Store) -> None:
        for name, text in (("a", '"' + "ä\N{GRINNING FACE}" * 40_000 + '"'), ("b", 'a\0b\x01\\"{},NULL')):
            graph = graph_text(text)
            begun(store, name, graph)
            assert store.graph(graph.id) == text

    def test_many_may_run_one_graph_and_a_batch_may_bring_several(self, store: Store) -> None:
        said = answers(store, running("a"), running("b", OTHER), running("c"), wanted("d"), running("e"))
        assert [answer.header.graph for answer in said if isinstance(answer, Started)] == [GRAPH.id, OTHER.id, GRAPH.id, None, GRAPH.id]
        assert (store.graph(GRAPH.id), store.graph(OTHER.id)) == (GRAPH.text, OTHER.text)

    def test_an_execution_names_its_graph_until_it_is_gone(self, store: Store) -> None:
        header = written(store, msgspec.structs.replace(running("a"), by=Claimant("here", "here-1")))
        resting = written(store, settled(header, Outcome(OutcomeStatus.CRASHED)))
        over = written(store, Stop(header.id))
        assert [x.graph for x in (header, resting, over, now_at(store, header))] == [GRAPH.id] * 4
        assert [x.graph for x in store.list(Filter())] == [GRAPH.id]

    def test_a_start_that_is_refused_leaves_no_graph(self, store: Store) -> None:
        started(store, "taken")
        dear = msgspec.structs.replace(running("dear"), charges=(Charge("day", 2, 1, T0 + DAY),))
        full, taken, good = answers(store, dear, msgspec.structs.replace(wanted("taken", "1"), graph=GRAPH), running("good", OTHER))
        assert isinstance(full, LimitReached)
        assert isinstance(taken, ExecutionAlreadyStarted)
        assert isinstance(good, Started)
        assert (store.graph(GRAPH.id), store.graph(OTHER.id)) == (None, OTHER.text)

    def test_a_start_that_finds_its_execution_adds_no_graph(self, store: Store) -> None:
        first = begun(store, "a")
        assert answers(store, running("a", OTHER)) == [Started(first, False)]
        assert store.graph(OTHER.id) is None

    def test_an_id_that_is_not_the_hash_of_the_text_is_refused_alone(self, store: Store) -> None:
        begun(store, "before")
        lying = GraphText(GRAPH.id, "{}")
        refused, good = answers(store, running("a", lying), running("b"))
        assert isinstance(refused, InvalidParameter)
        assert isinstance(good, Started)
        assert store.graph(GRAPH.id) == GRAPH.text

    def test_a_child_brings_its_graph_with_its_parents_checkpoint(self, store: Store) -> None:
        parent = live(store, "parent")
        child = carrying(parent, GRAPH)
        written(store, invoking(parent, child))
        assert now_at(store, child.header).graph == GRAPH.id
        assert store.graph(GRAPH.id) == GRAPH.text

    def test_a_refused_checkpoint_leaves_no_graph(self, store: Store) -> None:
        parent = live(store, "parent")
        written(store, claim(parent, "there", "here"))
        answers(store, invoking(parent, carrying(parent, GRAPH)))
        assert store.graph(GRAPH.id) is None

    def test_a_child_may_name_the_graph_of_its_parent_without_bringing_it(self, store: Store) -> None:
        parent = written(store, msgspec.structs.replace(running("parent"), by=Claimant("here", "here-1")))
        child = birth(parent, graph=GRAPH.id)
        written(store, invoking(parent, child))
        assert now_at(store, child.header).graph == GRAPH.id

    def test_a_graph_that_is_not_there_cannot_be_named_and_the_refusal_spoils_no_other(self, store: Store) -> None:
        good, refused, also_good = answers(store, wanted("a"), wanted("b", "{}", graph=GRAPH.id), running("c", OTHER))
        assert isinstance(refused, InvalidParameter)
        assert [isinstance(answer, Started) for answer in (good, also_good)] == [True, True]
        assert store.find_named("order", "b") is None

    def test_an_execution_that_goes_on_as_another_hands_its_graph_on(self, store: Store) -> None:
        heir = heir_of(store, begun(store, "a"))
        assert heir.graph == GRAPH.id
        forgotten(store, LATER)
        assert store.graph(GRAPH.id) == GRAPH.text
        written(store, Stop(heir.id))
        forgotten(store, LATER)
        assert store.graph(GRAPH.id) is None

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_a_graph_goes_with_the_last_execution_that_names_it(self, store: Store, limit: int) -> None:
        for name in ("a", "b"):
            ended(store, name)
        ended(store, "c", OTHER, days=9)
        still = begun(store, "still")
        closed(store, "without")
        forgotten(store, LATER, limit)
        assert (store.graph(GRAPH.id), store.graph(OTHER.id)) == (GRAPH.text, OTHER.text)
        written(store, Stop(still.id))
        forgotten(store, LATER, limit)
        assert (store.graph(GRAPH.id), store.graph(OTHER.id)) == (None, OTHER.text)
        assert not store.expire(LATER, limit)

    def test_a_graph_that_is_gone_is_there_again_with_the_next_execution(self, store: Store) -> None:
        for _ in range(2):
            ended(store, "a")
            assert store.graph(GRAPH.id) == GRAPH.text
            forgotten(store, LATER)
            assert store.graph(GRAPH.id) is None

    def test_a_graph_that_is_named_again_between_two_steps_of_the_removal_stays(self, store: Store) -> None:
        ended(store, "old")
        assert store.expire(LATER, 1)
        begun(store, "new")
        forgotten(store, LATER, 1)
        assert store.graph(GRAPH.id) == GRAPH.text

    def test_a_copy_takes_its_graph_along(self, store: Store) -> None:
        with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
            header = ended(elsewhere, "a")
            copy = elsewhere.snapshot(header.id)
        assert copy is not None
        assert copy.graph == GRAPH.text
        assert store.adopt(copy)
        assert not store.adopt(copy)
        assert (now_at(store, header).graph, store.graph(GRAPH.id)) == (GRAPH.id, GRAPH.text)
        assert store.snapshot(header.id) == msgspec.structs.replace(copy, header=now_at(store, header))
        forgotten(store, LATER)
        assert store.graph(GRAPH.id) is None

    def test_a_copy_whose_graph_is_there_shares_it(self, store: Store) -> None:
        begun(store, "mine")
        with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
            copy = elsewhere.snapshot(ended(elsewhere, "a").id)
        assert copy is not None
        assert store.adopt(copy)
        forgotten(store, LATER)
        assert store.graph(GRAPH.id) == GRAPH.text

    def test_a_copy_without_its_graph_names_none_and_one_with_a_wrong_graph_is_refused(self, store: Store) -> None:
        with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
            copy = elsewhere.snapshot(ended(elsewhere, "a").id)
        assert copy is not None
        with pytest.raises(InvalidParameter):
            store.adopt(msgspec.structs.replace(copy, graph="{}"))
        assert store.find(copy.header.id) is None
        bare = msgspec.structs.replace(copy, graph=None)
        assert store.adopt(bare)
        assert not store.adopt(bare)
        assert (now_at(store, copy.header).graph, store.graph(GRAPH.id)) == (None, None)


class SharedGraphSuite(TwoHandles):
    """Tests: graphs that several processes use. They need a handle for each process."""

    def test_a_graph_is_seen_by_the_others_and_after_a_restart(self, store: Store, other: Store, opening: Opening) -> None:
        begun(store, "a")
        assert other.graph(GRAPH.id) == GRAPH.text
        begun(other, "b")
        store.close()
        assert opening("again").graph(GRAPH.id) == GRAPH.text

    def test_a_graph_that_another_process_removed_is_added_again(self, store: Store, other: Store) -> None:
        ended(store, "a")
        forgotten(other, LATER)
        begun(store, "b")
        assert other.graph(GRAPH.id) == GRAPH.text

    def test_a_start_while_another_process_removes_finds_its_graph(self, stores: list[Store]) -> None:
        """One process removes unused graphs all the time. The others start and end executions of one graph, so that the graph becomes
        unused again and again."""
        done: list[int] = []

        def act(n: int, store: Store) -> list[str | None]:
            if n == 0:
                while len(done) < PROCESSES - 1:
                    store.expire(LATER, 5)
                return []
            found: list[str | None] = []
            try:
                for k in range(ROUNDS):
                    header = begun(store, f"{n}-{k}")
                    found.append(store.graph(GRAPH.id))
                    if k % 2:
                        claimed = written(store, claim(header, f"p{n}"))
                        written(store, invoking(claimed, birth(claimed, graph=GRAPH.id, terms=Terms(60, 1))))
                        found.append(store.graph(GRAPH.id))
                    written(store, Stop(header.id))
            finally:
                done.append(n)
            return found

        seen = [text for each in together(stores, act) for text in each]
        assert seen == [GRAPH.text] * len(seen), "one was removed while an execution named it"
        assert len(seen) >= ROUNDS * (PROCESSES - 1)
        forgotten(stores[0], T0 + 400 * DAY)
        assert [x for x in stores[0].list(Filter(limit=1000)) if x.state is not State.CLOSED] == []
        assert stores[0].graph(GRAPH.id) is None
