"""Lists: for random filters and page sizes, the store must return what a simple model in Python returns, also if executions start while a
client reads the pages."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.outside import Fire, Stop
from holdfast.model.verbs import Started, Write
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import T0, answers, at, claim, id_at, live, names, now_at, settled, started, wanted, written

FUNCTIONS, VERSIONS, NAMES = ("order", "refund", "mail"), ("$LATEST", "1", "2"), ("a", "b", "c", "d")
TIMES = tuple(range(6))
FILTERS = 200


class ListedExecution(NamedTuple):
    """The properties of one execution of the population."""

    time: int
    function: str
    version: str
    status: ExecutionStatus
    parent: str | None = None
    name: str = ""


class Population:
    """Executions of every status, in the store and in memory (`headers`)."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.headers: dict[str, Execution] = {}
        self._names: set[tuple[str, str]] = set()
        self.parents = [header.id for header in self.add(*(kind(n) for n in range(4)))]
        self.add(*(kind(n, self.parents[n % 4] if n % 3 == 0 else None) for n in range(4, 90)))

    def add(self, *kinds: ListedExecution) -> list[Execution]:
        """Add executions in a few batches, and return their headers as they were when they started. An execution without a name, or whose
        name is taken, gets its id as name."""
        made = answers(self.store, *(self._start(kind) for kind in kinds))
        headers = [answer.header for answer in made if isinstance(answer, Started)]
        assert len(headers) == len(kinds)
        asked = list(zip(headers, (kind.status for kind in kinds), strict=True))
        self._write([(x, Stop(x.id)) for x, status in asked if status is ExecutionStatus.STOPPED])
        self._write([(x, Fire(x.id)) for x, status in asked if status is ExecutionStatus.TIMED_OUT], at(9999))
        ending = [(x, status) for x, status in asked if status in (ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED)]
        claimed = self._write([(x, claim(x, "here")) for x, _ in ending])
        self._write([(x, settled(x, Outcome(OutcomeStatus(status.value), "1"))) for x, (_, status) in zip(claimed, ending, strict=True)])
        self.headers |= {x.id: now_at(self.store, x) for x in headers}
        assert [self.headers[x.id].status for x in headers] == [kind.status for kind in kinds]
        return headers

    def _start(self, kind: ListedExecution) -> Write:
        identity = id_at(at(kind.time))
        name = kind.name if kind.name and (kind.function, kind.name) not in self._names else identity
        self._names.add((kind.function, name))
        places: dict[str, Any] = {"function": kind.function, "version": kind.version, "parent": kind.parent}
        return wanted(name, "{}", id=identity, started_at=at(kind.time), parent_operation=kind.parent and "op", **places)

    def _write(self, writes: Sequence[tuple[Execution, Write]], now: int = at(9)) -> list[Execution]:
        return [answer for answer in answers(self.store, *(write for _, write in writes), now=now) if isinstance(answer, Execution)]

    def matching(self, wanted: Filter) -> list[str]:
        """The ids of the executions that match the filter, found in memory and not by the store, in the order that the filter asks for."""
        found = [x.id for x in self.headers.values() if matches(x, wanted)]
        return sorted(found, reverse=not wanted.oldest_first)


def kind(n: int, parent: str | None = None) -> ListedExecution:
    """The properties of the execution with this number, from 0."""
    return ListedExecution(n % 6, FUNCTIONS[n % 3], VERSIONS[n % 7 % 3], list(ExecutionStatus)[n % 11 % 5], parent, NAMES[n % 4])


def matches(x: Execution, wanted: Filter) -> bool:
    """Whether an execution matches a filter."""
    return (
        wanted.function in (None, x.function)
        and wanted.version in (None, x.version)
        and wanted.name in (None, x.name)
        and wanted.parent in (None, x.parent)
        and (not wanted.statuses or x.status in wanted.statuses)
        and (wanted.started_after is None or x.started_at > wanted.started_after)
        and (wanted.started_before is None or x.started_at < wanted.started_before)
    )


def any_filter(chance: Random, population: Population) -> Filter:
    """A random filter: each condition is set or not; a status may occur twice."""

    def perhaps(values: Sequence[Any]) -> Any:
        return chance.choice(values) if chance.random() < 0.4 else None

    times = [at(t) for t in TIMES]
    return Filter(
        function=perhaps(FUNCTIONS),
        version=perhaps(VERSIONS),
        name=perhaps(NAMES) if chance.random() < 0.5 else None,
        parent=perhaps(population.parents),
        statuses=tuple(chance.choices(list(ExecutionStatus), k=chance.choice((0, 0, 1, 2, 3)))),
        started_after=perhaps(times),
        started_before=perhaps(times),
        oldest_first=chance.random() < 0.5,
        limit=chance.randrange(13),
    )


def ids(found: Sequence[Execution]) -> list[str]:
    """The ids of these executions."""
    return [x.id for x in found]


class ListingSuite(OneHandle):
    """Tests: lists and their pages. They need one handle of the store."""

    @pytest.fixture
    def chance(self) -> Random:
        """The random source of the filters: the same in each run, unless a backend's class overrides it."""
        return Random(1)

    @pytest.fixture
    def population(self, store: Store) -> Population:
        """Executions of every kind."""
        made = Population(store)
        counts = {status: sum(x.status is status for x in made.headers.values()) for status in ExecutionStatus}
        assert min(counts.values()) > 5
        return made

    def test_executions_are_listed_newest_first_or_oldest_first(self, store: Store) -> None:
        for n in range(3):
            started(store, f"n{n}", now=at(n))
        assert names(store.list(Filter())) == ["n2", "n1", "n0"]
        assert names(store.list(Filter(oldest_first=True))) == ["n0", "n1", "n2"]

    def test_executions_are_listed_by_what_they_are(self, store: Store) -> None:
        started(store, "open", now=at(1))
        written(store, Stop(started(store, "stopped", now=at(2)).id))
        written(store, settled(live(store, "failed"), Outcome(OutcomeStatus.FAILED)))
        started(store, "refund", now=at(3), function="refund", version="7")
        assert names(store.list(Filter(function="refund"))) == ["refund"]
        assert names(store.list(Filter(version="7"))) == ["refund"]
        assert names(store.list(Filter(function="order", version="7"))) == []
        assert names(store.list(Filter(name="open"))) == ["open"]
        assert names(store.list(Filter(statuses=(ExecutionStatus.STOPPED,)))) == ["stopped"]
        assert set(names(store.list(Filter(statuses=(ExecutionStatus.STOPPED, ExecutionStatus.FAILED))))) == {"stopped", "failed"}

    def test_a_list_can_be_of_one_tenant(self, store: Store) -> None:
        for n, (name, tenant) in enumerate((("a", "north"), ("b", None), ("c", "south"), ("d", "north"))):
            started(store, name, now=at(n), tenant=tenant)
        assert names(store.list(Filter(tenant="north"))) == ["d", "a"]
        assert names(store.list(Filter(tenant="absent"))) == []
        assert len(store.list(Filter())) == 4

    def test_an_execution_without_a_tenant_is_listed_for_the_tenant_default(self, store: Store) -> None:
        for n, (name, tenant) in enumerate((("a", "north"), ("b", None), ("c", "default"), ("d", None))):
            started(store, name, now=at(n), tenant=tenant)
        assert names(store.list(Filter(tenant="default"))) == ["d", "c", "b"]
        assert names(store.list(Filter(tenant="default", function="order", statuses=(ExecutionStatus.RUNNING,)))) == ["d", "c", "b"]
        assert names(store.list(Filter(tenant="default", name="b"))) == ["b"]

    def test_time_bounds_are_exclusive(self, store: Store) -> None:
        for n in range(4):
            started(store, f"n{n}", now=at(n))
        assert names(store.list(Filter(started_after=at(0), started_before=at(3)))) == ["n2", "n1"]

    @pytest.mark.parametrize("oldest_first", [False, True])
    def test_pages_neither_repeat_nor_skip(self, store: Store, oldest_first: bool) -> None:
        for n in range(5):
            started(store, f"n{n}", now=at(n))
        seen, beyond = list[str](), None
        while page := store.list(Filter(limit=2, beyond=beyond, oldest_first=oldest_first)):
            seen += names(page)
            assert len(seen) <= 5
            beyond = page[-1].id
            started(store, f"new{len(seen)}", now=at(-9 if oldest_first else 99))  # the new execution is listed before the current page
        wanted_names = [f"n{n}" for n in range(5)]
        assert seen == (wanted_names if oldest_first else wanted_names[::-1])

    def test_a_filter_finds_what_it_says_in_the_order_it_says(self, population: Population, chance: Random) -> None:
        for _ in range(FILTERS):
            wanted = any_filter(chance, population)
            expected = population.matching(wanted)
            if chance.random() < 0.4:
                edge = chance.choice(sorted(population.headers))
                expected = [x for x in expected if (x > edge if wanted.oldest_first else x < edge)]
                wanted = msgspec.structs.replace(wanted, beyond=edge)
            found = population.store.list(wanted)
            assert ids(found) == expected[: wanted.limit], wanted
            assert list(found) == [population.headers[x.id] for x in found], "a list has the whole headers"

    def test_pages_neither_repeat_nor_skip_while_others_come(self, population: Population, chance: Random) -> None:
        for _ in range(FILTERS // 4):
            wanted = msgspec.structs.replace(any_filter(chance, population), limit=chance.randint(1, 7))
            there, coming = population.matching(wanted), chance.randrange(4)
            seen, beyond = list[str](), None
            while page := population.store.list(msgspec.structs.replace(wanted, beyond=beyond)):
                seen += ids(page)
                assert len(seen) <= len(population.headers), "some were seen twice"
                beyond = page[-1].id
                if coming:
                    coming -= 1
                    status = chance.choice([ExecutionStatus.RUNNING, ExecutionStatus.STOPPED])
                    population.add(ListedExecution(chance.choice(TIMES), chance.choice(FUNCTIONS), chance.choice(VERSIONS), status))
            assert seen == sorted(set(seen), reverse=not wanted.oldest_first), "none twice, all in order"
            assert [x for x in seen if x in set(there)] == there, "all that were there when the first page was read"
            assert set(seen) <= set(population.matching(wanted)), wanted

    def test_an_execution_is_found_by_its_parent(self, store: Store, population: Population) -> None:
        for parent in population.parents:
            children = ids(store.list(Filter(parent=parent, limit=1000)))
            assert children == population.matching(Filter(parent=parent))
            assert len(children) > 3
        assert ids(store.list(Filter(parent=id_at(T0)))) == []
