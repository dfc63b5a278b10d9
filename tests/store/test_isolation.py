"""Batches of any mixture, by Hypothesis: what is wrong is refused alone, and those beside it are written once, in order, on both stores."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.charges import Charge
from holdfast.model.errors import DiskFull, HoldfastError, RowDamaged, StoreBroken, WriteFailed
from holdfast.model.operations import Action
from holdfast.model.verbs import Checkpoint, Checkpointed, Write
from holdfast.store.isolation import committed_apart, refused
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.seam import Committed, Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.bad_entries import FIELDS, VALUES, WAITING, made_live
from holdfast.testing.stores.isolation import judge
from holdfast.testing.stores.writes import LEASE, T0, answers, checkpoint, live, now_at, position, step, wanted
from tests.postgres import new_schema

PAIRS = [(kind, member) for kind, members in FIELDS.items() for member in members]
MIXTURES = st.lists(st.tuples(st.sampled_from(PAIRS), st.sampled_from(sorted(VALUES))), min_size=1, max_size=12, unique=True)
_numbers = itertools.count()


@functools.cache
def sqlite_store() -> Store:
    store = SqliteStore(":memory:", "here")
    store.join("here", LEASE)
    return store


@functools.cache
def postgres_store() -> Store:
    store = PostgresStore(new_schema(), "here")
    store.join("here", LEASE)
    return store


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each refused entry is logged with its place, which is another test's to look at."""
    log = logging.getLogger("holdfast.store")
    log.disabled = True
    yield
    log.disabled = False


def judged(store: Store, mixture: Sequence[tuple[tuple[str, str], str]]) -> None:
    number = next(_numbers)
    victims = made_live(store, [f"wrong-{number}-{n}" for n in range(len(mixture))], WAITING)
    good = made_live(store, [f"good-{number}-{n}" for n in range(3)])
    wrong = [FIELDS[kind][member](victim, VALUES[value]) for victim, ((kind, member), value) in zip(victims, mixture, strict=True)]
    judge(store, wrong, victims, good)


QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(MIXTURES)
def test_in_any_mixture_of_wrong_entries_the_good_ones_are_written_once_in_sqlite(mixture: list[tuple[tuple[str, str], str]]) -> None:
    judged(sqlite_store(), mixture)


@settings(QUICK, max_examples=8)
@given(MIXTURES)
def test_in_any_mixture_of_wrong_entries_the_good_ones_are_written_once_in_postgres(mixture: list[tuple[tuple[str, str], str]]) -> None:
    judged(postgres_store(), mixture)


# --- a row that the database refuses --------------------------------------------------------------------------------------------------


STORES: dict[str, Callable[[], Store]] = {"sqlite": sqlite_store, "postgres": postgres_store}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    return STORES[request.param]()


def named(prefix: str, count: int) -> list[str]:
    number = next(_numbers)
    return [f"{prefix}-{number}-{n}" for n in range(count)]


def unstorable(name: str) -> Write:
    """A start that is decided like any other, and whose row no database takes."""
    return wanted(name, "{}", deaths=2**70)


def test_a_row_that_is_refused_is_found_in_a_few_transactions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, parts = type(store)._commit, []  # type: ignore[attr-defined]

    def counted(self: Any, batch: Sequence[Write], *more: Any) -> Committed:
        parts.append(len(batch))
        done: Committed = commit(self, batch, *more)
        return done

    monkeypatch.setattr(type(store), "_commit", counted)
    good = [wanted(name) for name in named("good", 127)]
    bad = unstorable(*named("bad", 1))
    said = answers(store, *good[:90], bad, *good[90:])
    assert [place for place, answer in enumerate(said) if isinstance(answer, HoldfastError)] == [90]
    assert isinstance(said[90], WriteFailed)
    assert [store.find(start.header.id) is not None for start in good] == [True] * 127
    assert store.find(bad.execution) is None
    assert len(parts) == 1 + 2 * 7, "one for the whole, two for each time it was halved"


def test_a_batch_in_parts_tells_and_charges_and_signals_once(store: Store) -> None:
    subscriber, key = f"sub-{next(_numbers)}", f"key-{next(_numbers)}"
    store.subscribe(subscriber)
    store.take_delivery(subscriber, "here")
    last = max((signal.number for signal in store.kept_signals(0, 10_000)), default=0)
    paid = made_live(store, named("paid", 4))
    charges = (Charge(key, 1, 100, T0 * 2),)
    batch: list[Write] = [Checkpoint(position(header), (step("s"),), "token", charges=charges) for header in paid]
    unpaid = made_live(store, named("unpaid", 1))[0]
    batch.insert(2, Checkpoint(position(unpaid), (step("s", Action.FAIL, error=5),), charges=charges))
    batch += [unstorable(*named("bad", 1)), *(wanted(name) for name in named("good", 3))]
    done = store.commit(batch, T0)
    assert [isinstance(answer, HoldfastError) for answer in done.answers] == [False, False, True, False, False, True, False, False, False]
    assert [counter.amount for counter in store.counters([key])] == [4]
    again = answers(store, *(write for write in batch if isinstance(write, Checkpoint) and write.client_token))
    assert [answer.token for answer in again if isinstance(answer, Checkpointed)] == [
        answer.token for answer in done.answers if isinstance(answer, Checkpointed)
    ], "a request that is sent again is recognised"
    told = [signal.arn.rpartition("/")[2] for signal in store.kept_signals(last, 10_000)]
    started = [*(header.id for header in (*paid, unpaid)), *(write.execution for write in batch[-3:])]
    assert told == started, "each start is told once, and in order"
    store.unsubscribe(subscriber)


def test_a_disk_that_fills_between_two_parts_is_the_answer_of_what_is_not_written() -> None:
    tried: list[int] = []

    def commit(part: Sequence[Any]) -> Committed:
        tried.append(len(part))
        if "bad" in part:
            raise TypeError
        if "e" in part:
            raise DiskFull
        return Committed([f"{entry} written" for entry in part])  # type: ignore[misc]

    def shared(error: Exception) -> HoldfastError | None:
        return error if isinstance(error, DiskFull) else None

    batch: Any = ["a", "b", "bad", "d", "e", "f", "g", "h"]
    said = committed_apart(batch, TypeError(), commit, shared, lambda *_: WriteFailed()).answers
    assert [type(answer) if isinstance(answer, HoldfastError) else str(answer) for answer in said] == [
        "a written", "b written", WriteFailed, "d written", DiskFull, DiskFull, DiskFull, DiskFull,
    ]  # fmt: skip
    assert tried == [4, 2, 2, 1, 1, 4], "and nothing after it is tried, so that entries keep their order"
    with pytest.raises(DiskFull):
        committed_apart(batch[4:6], DiskFull(), commit, shared)


def test_neither_the_answer_nor_the_log_of_a_refused_entry_tells_a_payload(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("holdfast.store").disabled = False
    secret = "hunter2"

    def fail(error: type[Exception]) -> Exception:
        try:
            raise error(f"invalid value {secret}")
        except Exception as caught:
            return caught

    for error in (ValueError, KeyError, UnicodeError, sqlite3.OperationalError):
        answer = refused(wanted("a", secret), fail(error))
        assert isinstance(answer, WriteFailed)
        assert error.__name__ in str(answer)
        assert secret not in f"{answer!r} {answer.__cause__!r} {answer.__context__!r}"
    assert len(caplog.records) == 4
    assert secret not in caplog.text
    assert "in fail" in caplog.text, "the place is told"
    logging.getLogger("holdfast.store").disabled = True


# --- a row that is damaged ------------------------------------------------------------------------------------------------------------


def test_a_damaged_header_fails_the_entries_that_need_it_and_no_entry_beside_them(tmp_path: Any) -> None:
    where = tmp_path / "store.db"
    with contextlib.closing(SqliteStore(str(where), "here")) as store:
        store.join("here", LEASE)
        damaged, *good = made_live(store, [f"x{n}" for n in range(5)])
    with contextlib.closing(sqlite3.connect(where)) as rows:
        rows.execute("UPDATE executions SET status = 'NONSENSE' WHERE id = ?", (damaged.id,))
        rows.commit()
    with contextlib.closing(SqliteStore(str(where), "here")) as store:
        said = answers(store, *(checkpoint(header, step("s", Action.SUCCEED)) for header in (good[0], damaged, *good[1:])))
        assert [type(answer) for answer in said] == [Checkpointed, RowDamaged, *[Checkpointed] * 3]
        assert issubclass(RowDamaged, StoreBroken)


def test_memory_that_cannot_be_kept_after_a_commit_is_dropped_and_what_was_written_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(SqliteStore(":memory:", "here")) as store:
        store.join("here", LEASE)
        header = live(store, "a")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteStore, "_keep", lambda *_: 1 / 0)
            (said,) = answers(store, checkpoint(header, step("s")))
        assert isinstance(said, Checkpointed)
        (said,) = answers(store, checkpoint(now_at(store, header), step("t")))
        assert isinstance(said, Checkpointed)
        assert [op.id for op in store.operations(header.id)] == ["s", "t"]
