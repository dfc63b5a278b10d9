"""The console's reads `browse` and `facets`: for random filters, page sizes and bounds they must return what a simple model in Python
returns, over executions of every status."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.model.browse_errors import ReadTooLong
from holdfast.model.execution import Execution, Outcome, OutcomeStatus, Terms
from holdfast.model.operations import APPROVAL, Action, Failure, Kind, Type, Update
from holdfast.model.outside import Fire, Stop
from holdfast.model.shown_status import ShownStatus, shown_status
from holdfast.model.summary import Summary, begun
from holdfast.store.browse import Browse, BrowsedRow, Facet
from holdfast.store.seam import Hosted, Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.queue_writes import declare, queued
from holdfast.testing.stores.writes import T0, after, at, claim, id_at, now_at, settled, started, wait, wanted, written

LATER = at(500)
LONG = 60.0
"""A deadline in seconds that no read of these tests reaches."""
KINDS = {"order": Kind.FUNCTION, "mail": Kind.WORKER, "flow": Kind.PIPELINE, "lost": Kind.FUNCTION}
"""The functions of the executions in `Crowd`, each with its kind. No runner has published `lost`."""
TENANTS = (None, "default", "acme", "acme", "zoo")
LOOKS = 90


def ends(status: OutcomeStatus, *, error: Failure | None = None, summary: Summary | None = None) -> Callable[[Store, Execution], object]:
    """A function that claims an execution for a runner, and ends its invocation with this outcome."""

    def end(store: Store, header: Execution) -> object:
        live = written(store, claim(header, "here"), LATER)
        result = "1" if status is OutcomeStatus.SUCCEEDED else None
        return written(store, settled(live, Outcome(status, result, error, summary=summary)), LATER)

    return end


def rests(*updates: Update) -> Callable[[Store, Execution], object]:
    """A function that claims an execution for a runner, writes these updates, and suspends the execution."""

    def rest(store: Store, header: Execution) -> object:
        live = after(store, written(store, claim(header, "here"), LATER), *updates, now=LATER)
        return written(store, settled(live, Outcome(OutcomeStatus.PENDING)), LATER)

    return rest


LIVES: dict[str, Callable[[Store, Execution], object]] = {
    "ready": lambda store, header: header,
    "running": lambda store, header: written(store, claim(header, "here"), LATER),
    "waits": rests(wait("w", 900)),
    "asks": rests(Update(id="a", type=Type.CALLBACK, action=Action.START, sub_type=APPROVAL)),
    "crashed": ends(OutcomeStatus.CRASHED, error=Failure("boom", "Boom")),
    "aside": ends(OutcomeStatus.MISMATCHED, error=Failure("changed", "Changed")),
    "stopped": lambda store, header: written(store, Stop(header.id), LATER),
    "late": lambda store, header: written(store, Fire(header.id), at(9999)),
    "failed": ends(OutcomeStatus.FAILED, error=Failure("no", "NoSuchOrder")),
    "failed without a type": ends(OutcomeStatus.FAILED, error=Failure("no")),
    "ok": ends(OutcomeStatus.SUCCEEDED),
    "ok run": ends(OutcomeStatus.SUCCEEDED, summary=Summary(outcome="ok", cost=12, attempt=1, attempts=3)),
    "partial run": ends(OutcomeStatus.SUCCEEDED, summary=Summary(outcome="partial", error_code="schema_mismatch", cost=10**15, attempt=2)),
    "failed run": ends(OutcomeStatus.SUCCEEDED, summary=Summary(outcome="permanent_error", error_code="no_such_page", attempt=3)),
}
"""Functions that bring a started execution into a status, by a name. Together they reach every status of executions without a queue."""


class Crowd:
    """Executions of every shown status, in the store and in a Python list, newest first."""

    def __init__(self, store: Store, count: int = 140) -> None:
        self.store = store
        store.publish([Hosted(name, "$LATEST", Terms(), kind) for name, kind in KINDS.items() if name != "lost"])
        declare(store, "letters")
        chance = Random(18)
        made: list[Execution] = []
        for n in range(count):
            life = LIVES[list(LIVES)[n % len(LIVES)]]
            made.append(self._lives(n, life, chance, made))
        made += [written(store, queued(f"queued-{n}", queue="letters", now=at(count + n), tenant="zoo"), at(count + n)) for n in range(4)]
        self.headers = sorted((now_at(store, header) for header in made), key=lambda header: header.id, reverse=True)
        self.undecided = set(store.undecided("", 1000))

    def _lives(self, n: int, life: Callable[[Store, Execution], object], chance: Random, made: Sequence[Execution]) -> Execution:
        function = chance.choice(list(KINDS))
        pipeline = "flow" if function == "flow" else chance.choice((None, None, "flow", "other"))
        set_to: dict[str, Any] = {
            "function": function,
            "version": chance.choice(("$LATEST", "$LATEST", "7")),
            "tenant": chance.choice(TENANTS),
            "summary": begun(pipeline),
            "parent": chance.choice((None, chance.choice(made).id if made else None)),
        }
        name = f"{chance.choice(('night', 'day'))}-{n}" if n % 3 else id_at(at(n))
        header = started(self.store, name, at(n), **set_to)
        life(self.store, header)
        return header

    def matching(self, wanted: Browse) -> list[Execution]:
        """The executions that match `wanted`, found in the Python list and not by the store."""
        return [header for header in self.headers if self._matches(header, wanted)]

    def status(self, header: Execution) -> ShownStatus:
        """The status of an execution, computed in Python by `shown_status`. (Which executions wait for a person was read from the store
        once.)"""
        return shown_status(header, undecided=header.id in self.undecided)

    def kind(self, header: Execution) -> Kind:
        """The kind of an execution's function. Only the version `$LATEST` is published; every other version counts as `Kind.FUNCTION`."""
        return KINDS[header.function] if header.version == "$LATEST" else Kind.FUNCTION

    def _matches(self, header: Execution, wanted: Browse) -> bool:
        told = header.summary or Summary()
        tenant = header.tenant or "default"
        fields: list[tuple[Sequence[object], object]] = [
            (wanted.statuses, self.status(header)),
            (wanted.functions, header.function),
            (wanted.pipelines, told.pipeline),
            (wanted.queues, None if header.place is None else header.place.queue),
            (wanted.error_codes, told.error_code),
            (wanted.versions, header.version),
            (wanted.tenants, tenant),
            (wanted.kinds, self.kind(header)),
        ]
        return (
            all(value in values for values, value in fields if values)
            and wanted.tenant in (None, tenant)
            and (not wanted.text or header.id.startswith(wanted.text) or header.name.startswith(wanted.text))
            and (wanted.since is None or time_of(header) >= wanted.since)
            and (wanted.until is None or time_of(header) < wanted.until)
            and not (wanted.roots and header.parent is not None)
            and (wanted.beyond is None or header.id < wanted.beyond)
        )

    def any_look(self, chance: Random) -> Browse:
        """A random filter with at most three fields."""
        one = chance.choice(self.headers)
        fields: dict[str, Callable[[], object]] = {
            "statuses": lambda: tuple(chance.sample(list(ShownStatus), chance.randint(1, 3))),
            "functions": lambda: tuple(chance.sample([*KINDS, "none"], chance.randint(1, 2))),
            "pipelines": lambda: (chance.choice(("flow", "other", "none")),),
            "queues": lambda: ("letters",),
            "error_codes": lambda: tuple(chance.sample(["NoSuchOrder", "error", "stopped", "timed_out", "no_such_page", "none"], 2)),
            "versions": lambda: (chance.choice(("7", "$LATEST")),),
            "tenants": lambda: tuple(chance.sample(["default", "acme", "zoo", "none"], 2)),
            "tenant": lambda: chance.choice(("default", "acme", "none")),
            "kinds": lambda: tuple(chance.sample(list(Kind), chance.randint(1, 2))),
            "text": lambda: chance.choice(("night", "day-1", "x", one.id, one.id[:13], one.name)),
            "since": lambda: at(chance.randint(0, 150)),
            "until": lambda: at(chance.randint(0, 150)),
            "roots": lambda: True,
        }
        asked = {name: fields[name]() for name in chance.sample(list(fields), chance.randint(0, 3))}
        return Browse(**asked)  # type: ignore[arg-type]


def time_of(header: Execution) -> int:
    """The time in an execution's id. In these tests the ids of queued executions always grow, so this time may be later than their
    start."""
    return int(header.id[:8] + header.id[9:13], 16)


def all_pages(store: Store, wanted: Browse) -> list[BrowsedRow]:
    """All rows that `browse` finds, read page by page. Each page begins where the one before ended."""
    found: list[BrowsedRow] = []
    for _ in range(1000):
        page = store.browse(wanted, LONG)
        found += page.rows
        assert not (page.more and page.searched_to), "a full page does not say where the search stopped"
        beyond = page.rows[-1].header.id if page.more else page.searched_to
        if beyond is None:
            return found
        assert wanted.beyond is None or beyond < wanted.beyond, "every page makes progress"
        wanted = msgspec.structs.replace(wanted, beyond=beyond)
    raise AssertionError("the pages have no end")


def ids(found: Iterable[BrowsedRow | Execution]) -> list[str]:
    """The ids of these executions."""
    return [one.id if isinstance(one, Execution) else one.header.id for one in found]


class BrowsingSuite(OneHandle):
    """Tests: `browse` and `facets`. They need one handle of the store."""

    @pytest.fixture
    def crowd(self, store: Store) -> Crowd:
        """Executions of every status."""
        return Crowd(store)

    def test_every_execution_is_shown_as_it_stands_newest_first(self, store: Store, crowd: Crowd) -> None:
        found = store.browse(Browse(limit=1000), LONG)
        assert (ids(found.rows), found.more, found.searched_to) == (ids(crowd.headers), False, None)
        assert [(row.header, row.status, row.kind) for row in found.rows] == [
            (header, crowd.status(header), crowd.kind(header)) for header in crowd.headers
        ]
        assert {row.status for row in found.rows} == set(ShownStatus)

    def test_every_look_finds_what_matches_and_nothing_else(self, store: Store, crowd: Crowd) -> None:
        chance = Random(181)
        for _ in range(LOOKS):
            look = crowd.any_look(chance)
            matching = ids(crowd.matching(look))
            assert ids(all_pages(store, msgspec.structs.replace(look, limit=chance.choice((3, 7, 50))))) == matching, look

    def test_pages_of_a_bounded_search_neither_repeat_nor_skip(self, store: Store, crowd: Crowd) -> None:
        chance = Random(182)
        for _ in range(LOOKS // 3):
            look = crowd.any_look(chance)
            bounded = msgspec.structs.replace(look, limit=chance.choice((2, 7)), scan=chance.choice((20, 60)))
            assert ids(all_pages(store, bounded)) == ids(crowd.matching(look)), look

    def test_a_search_that_finds_nothing_stops_at_its_bound_and_says_where(self, store: Store, crowd: Crowd) -> None:
        found = store.browse(Browse(versions=("none",), scan=30), LONG)
        assert (found.rows, found.more) == ((), False)
        assert found.searched_to is not None
        assert found.searched_to in ids(crowd.headers)[:30]
        assert store.browse(Browse(versions=("none",)), LONG).searched_to is None

    def test_a_caller_of_a_tenant_sees_that_tenant_only(self, store: Store, crowd: Crowd) -> None:
        for tenant in ("acme", "default", "none"):
            mine = [header for header in crowd.headers if (header.tenant or "default") == tenant]
            assert ids(all_pages(store, Browse(tenant=tenant))) == ids(mine)
            assert store.browse(Browse(tenant=tenant, tenants=("zoo",)), LONG).rows == ()
            assert store.facets(Browse(tenant=tenant), LONG).counted == len(mine)
            assert set(store.undecided("", 1000, tenant)) == crowd.undecided & set(ids(mine))
            text = crowd.headers[0].id
            assert ids(all_pages(store, Browse(tenant=tenant, text=text))) == [id for id in ids(mine) if id == text]

    def test_facets_count_what_matches(self, store: Store, crowd: Crowd) -> None:
        chance = Random(183)
        for look in [Browse(), *(crowd.any_look(chance) for _ in range(LOOKS // 3))]:
            matching = crowd.matching(look)
            found = store.facets(look, LONG)
            assert (found.counted, found.bounded) == (len(matching), False)
            assert {facet: dict(counts) for facet, counts in found.counts.items()} == expected(crowd, matching), look
            for counts in found.counts.values():
                assert list(counts.values()) == sorted(counts.values(), reverse=True)

    def test_facets_count_the_newest_matches_and_say_so(self, store: Store, crowd: Crowd) -> None:
        found = store.facets(Browse(), LONG, most=30)
        assert (found.counted, found.bounded) == (30, True)
        assert {facet: dict(counts) for facet, counts in found.counts.items()} == expected(crowd, crowd.headers[:30])
        nothing = store.facets(Browse(versions=("none",), scan=30), LONG)
        assert (nothing.counted, nothing.bounded) == (0, True)

    def test_a_look_that_takes_too_long_is_refused_and_the_next_one_is_answered(self, store: Store, crowd: Crowd) -> None:
        for look in (lambda: store.browse(Browse(), 0.0), lambda: store.facets(Browse(), 0.0)):
            with pytest.raises(ReadTooLong, match="shorter range of time"):
                look()
        assert store.browse(Browse(), LONG).rows

    def test_a_text_that_no_row_can_have_finds_nothing(self, store: Store, crowd: Crowd) -> None:
        for text in ("\0", "a\0b", "\ud800", "é", "~", "%", "_", "'"):
            assert store.browse(Browse(text=text), LONG).rows == ()
            assert store.browse(Browse(functions=(text,), error_codes=(text,)), LONG).rows == ()

    def test_a_look_sees_what_was_committed_before_it(self, store: Store) -> None:
        assert store.browse(Browse(), LONG).rows == ()
        header = started(store, "a")
        assert ids(store.browse(Browse(text="a"), LONG).rows) == [header.id]
        again = written(store, msgspec.structs.replace(wanted("b", id=id_at(T0 + 1))))
        assert ids(store.browse(Browse(), LONG).rows) == [again.id, header.id]

    def test_an_execution_that_lost_its_name_is_found_by_it(self, store: Store) -> None:
        old = written(store, Stop(started(store, "again").id))
        new = written(store, msgspec.structs.replace(wanted("again", id=id_at(at(1)), started_at=at(1)), again=True), at(1))
        assert now_at(store, old).superseded_by == new.id
        assert ids(store.browse(Browse(text="aga"), LONG).rows) == [new.id, old.id]


def expected(crowd: Crowd, matching: Sequence[Execution]) -> dict[Facet, dict[str, int]]:
    """The counts of each facet over these executions, computed in Python and not by the store."""
    values: list[tuple[Facet, str | None]] = []
    for header in matching:
        told, kind = header.summary or Summary(), crowd.kind(header)
        values += [
            (Facet.STATUS, crowd.status(header).value),
            (Facet.WORKER, header.function if kind is Kind.WORKER else None),
            (Facet.FUNCTION, header.function if kind is Kind.FUNCTION else None),
            (Facet.PIPELINE, told.pipeline),
            (Facet.QUEUE, None if header.place is None else header.place.queue),
            (Facet.TENANT, header.tenant or "default"),
            (Facet.ERROR_CODE, told.error_code),
            (Facet.VERSION, header.version),
        ]
    counted = Counter((facet, value) for facet, value in values if value is not None)
    return {facet: {value: count for (of, value), count in counted.items() if of is facet} for facet in Facet}
