"""Lists against a naive model: any filter, any page size, and executions that come while somebody turns the pages."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.outside import Fire, Stop
from holdfast.model.verbs import Start, Started
from holdfast.store.seam import Filter, Store
from tests.store.suite import T0, answers, at, claim, id_at, now_at, settled, wanted, written

FUNCTIONS, VERSIONS, NAMES = ("order", "refund", "mail"), ("$LATEST", "1", "2"), ("a", "b", "c", "d")
TIMES = tuple(range(6))
INDEPENDENT = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
)
"""The examples share one store: what one writes the next one finds, and the model knows of it."""


def optional(values: Sequence[object]) -> st.SearchStrategy[object]:
    return st.none() | st.sampled_from(values)


filters = st.builds(
    Filter,
    function=optional(FUNCTIONS),
    version=optional(VERSIONS),
    name=optional(NAMES),
    statuses=st.lists(st.sampled_from(ExecutionStatus), max_size=3).map(tuple),
    started_after=optional([at(t) for t in TIMES]),
    started_before=optional([at(t) for t in TIMES]),
    oldest_first=st.booleans(),
    limit=st.integers(0, 12),
)


class Population:
    """Executions of every kind, in the store and in a list beside it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.headers: dict[str, Execution] = {}
        self.parents: list[str] = []
        statuses = list(ExecutionStatus)
        for n in range(90):
            parent = self.parents[n % len(self.parents)] if n % 3 == 0 and self.parents else None
            header = self.add(n % 6, FUNCTIONS[n % 3], VERSIONS[n % 7 % 3], statuses[n % 11 % 5], parent, NAMES[n % 4])
            if n < 4:
                self.parents.append(header.id)

    def add(self, time: int, function: str, version: str, status: ExecutionStatus, parent: str | None = None, name: str = "") -> Execution:
        """One more; where its name is taken it is called like its id."""
        identity = id_at(at(time))
        named = name if name and self.store.find_named(function, name) is None else identity
        asked = wanted(
            named,
            "{}",
            id=identity,
            function=function,
            version=version,
            parent=parent,
            started_at=at(time),
            parent_operation=parent and "op",
        )
        header = self._ended(asked, status)
        self.headers[identity] = header
        return header

    def _ended(self, asked: Start, status: ExecutionStatus) -> Execution:
        (answer,) = answers(self.store, asked, now=asked.header.started_at)
        assert isinstance(answer, Started)
        header = answer.header
        match status:
            case ExecutionStatus.RUNNING:
                return header
            case ExecutionStatus.STOPPED:
                return written(self.store, Stop(header.id), at(9))
            case ExecutionStatus.TIMED_OUT:
                return written(self.store, Fire(header.id), header.deadline)
            case ExecutionStatus.SUCCEEDED | ExecutionStatus.FAILED:
                live = written(self.store, claim(header, "here"), at(9))
                return written(self.store, settled(live, Outcome(OutcomeStatus(status.value), "1")), at(9))

    def matching(self, wanted: Filter) -> list[str]:
        """What the filter means, spelled out."""
        found = [x.id for x in self.headers.values() if matches(x, wanted)]
        return sorted(found, reverse=not wanted.oldest_first)


def matches(x: Execution, wanted: Filter) -> bool:
    return (
        wanted.function in (None, x.function)
        and wanted.version in (None, x.version)
        and wanted.name in (None, x.name)
        and wanted.parent in (None, x.parent)
        and (not wanted.statuses or x.status in wanted.statuses)
        and (wanted.started_after is None or x.started_at > wanted.started_after)
        and (wanted.started_before is None or x.started_at < wanted.started_before)
    )


def ids(found: Sequence[Execution]) -> list[str]:
    return [x.id for x in found]


class ListingSuite:
    """One handle."""

    @pytest.fixture
    def population(self, store: Store) -> Population:
        """Executions of every kind."""
        made = Population(store)
        counts = {status: sum(x.status is status for x in made.headers.values()) for status in ExecutionStatus}
        assert min(counts.values()) > 5
        assert {now_at(store, x) for x in made.headers.values()} == set(made.headers.values())
        return made

    @given(wanted=filters, parent=st.none() | st.integers(0, 3), beyond=st.none() | st.integers(0, 89))
    @INDEPENDENT
    def test_a_filter_finds_what_it_says_in_the_order_it_says(
        self, population: Population, wanted: Filter, parent: int | None, beyond: int | None
    ) -> None:
        wanted = msgspec.structs.replace(wanted, parent=None if parent is None else population.parents[parent])
        expected = population.matching(wanted)
        if beyond is not None:
            edge = sorted(population.headers)[beyond]
            expected = [x for x in expected if (x > edge if wanted.oldest_first else x < edge)]
            wanted = msgspec.structs.replace(wanted, beyond=edge)
        found = population.store.list(wanted)
        assert ids(found) == expected[: wanted.limit]
        assert list(found) == [population.headers[x.id] for x in found], "with all that is known of them"

    @given(
        wanted=filters,
        size=st.integers(1, 7),
        coming=st.lists(
            st.tuples(
                st.sampled_from(TIMES),
                st.sampled_from(FUNCTIONS),
                st.sampled_from(VERSIONS),
                st.sampled_from([ExecutionStatus.RUNNING, ExecutionStatus.STOPPED]),
            ),
            max_size=4,
        ),
    )
    @INDEPENDENT
    def test_pages_neither_repeat_nor_skip_while_others_come(
        self, population: Population, wanted: Filter, size: int, coming: list[tuple[int, str, str, ExecutionStatus]]
    ) -> None:
        there = population.matching(wanted)
        seen, beyond = list[str](), None
        while page := population.store.list(msgspec.structs.replace(wanted, limit=size, beyond=beyond)):
            seen += ids(page)
            beyond = page[-1].id
            if coming:
                population.add(*coming.pop())
        assert seen == sorted(set(seen), reverse=not wanted.oldest_first), "none twice, all in order"
        assert [x for x in seen if x in set(there)] == there, "all that were there when the first page was read"
        assert set(seen) <= set(population.matching(wanted))

    def test_an_execution_is_found_by_its_parent(self, store: Store) -> None:
        population = Population(store)
        for parent in population.parents:
            children = ids(store.list(Filter(parent=parent, limit=1000)))
            assert children == population.matching(Filter(parent=parent))
            assert len(children) > 3
        assert ids(store.list(Filter(parent=id_at(T0)))) == []
