"""Queues in a database that several processes write: who locks what, who is told, and what a lost connection leaves."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.model.admission import Same
from holdfast.model.errors import DiskFailed, HoldfastError, LeaseLost, StoreNotMigrated
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.outside import Stop
from holdfast.model.queues import Mode, QueueRow
from holdfast.model.verbs import Start
from holdfast.store.maintenance import CheckReport
from holdfast.store.postgres.maintenance import PostgresMaintenance
from holdfast.store.postgres.session import Session, Statement
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.stores.queue_writes import (
    MAIL,
    admitted,
    admitted_names,
    check_counts,
    claimant,
    counted,
    declare,
    ended,
    enqueued,
    queued,
    running,
    several,
)
from holdfast.testing.stores.writes import LEASE, T0, answers, at, forgotten, settled, written
from tests.parts import examples
from tests.postgres import database, empty_store, new_schema, schema_of
from tests.store.test_admission_model import Starved
from tests.store.test_postgres_races import Cut, joined


@pytest.fixture
def where() -> str:
    return empty_store()


@pytest.fixture
def store(where: str) -> Iterator[PostgresStore]:
    with joined(where, "here") as store:
        yield store


@pytest.fixture
def other(where: str) -> Iterator[PostgresStore]:
    with joined(where, "there") as other:
        yield other


@contextlib.contextmanager
def locked(where: str, lane: str = MAIL) -> Iterator[None]:
    """Another process is about to write a lane."""
    with database() as rude, rude.transaction():
        rude.execute(f"SELECT 1 FROM {schema_of(where)}.lanes WHERE key = %s FOR UPDATE".encode(), (lane,))
        yield


def statements(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The statements that the store runs from now on."""
    said, real = list[bytes](), Session.run

    def run(self: Session, statement: bytes, *given: Any, **more: Any) -> Any:
        said.append(statement)
        return real(self, statement, *given, **more)

    monkeypatch.setattr(Session, "run", run)
    return said


def checked(where: str) -> CheckReport:
    return PostgresMaintenance(where).check(quick=False)


# --- how many statements -----------------------------------------------------------------------------------------------------


def test_a_batch_that_only_gives_slots_back_is_one_statement(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(store, limits={"at_once": 9, "rates": ["100 tokens/m"]})
    headers = [running(store, name, tenant=name, units=9) for name in "abc"]
    said = statements(store, monkeypatch)
    outcome = Outcome(OutcomeStatus.SUCCEEDED, "1", used=5, cool_until=at(60))
    assert not [a for a in answers(store, *(settled(header, outcome) for header in headers)) if isinstance(a, HoldfastError)]
    assert len(said) == 1
    assert counted(store) == {}


def test_a_thousand_enqueues_are_a_few_statements(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    several(store, "first")
    starts = [queued(f"n{n}") for n in range(1000)]
    said = statements(store, monkeypatch)
    enqueued(store, *starts)
    assert len(said) == 7, "BEGIN, names, lanes, the queue, keys, the batch, COMMIT"
    assert counted(store)[MAIL] == (0, 1001)


def test_an_admission_of_one_lane_is_a_few_statements_for_any_number(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    several(store, *(f"n{n}" for n in range(300)))
    said = statements(store, monkeypatch)
    assert len(admitted(store, 200)) == 200
    assert len(said) == 5, "BEGIN, lanes, executions, the batch, COMMIT"
    said.clear()
    assert not store.has_open_lane((), at(0))
    assert admitted(store, 100, targets=()) == []
    assert len(said) == 1, "a runner that hosts nothing of what waits opens no transaction"


def test_the_inputs_of_what_was_admitted_are_at_hand_once_and_then_read(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    several(store, "a", "b")
    headers = [header.id for header in admitted(store, 2)]
    said = statements(store, monkeypatch)
    at_hand = store.inputs(headers)
    assert said == []
    assert at_hand == store.inputs(headers)
    assert len(at_hand) == 2
    assert len(said) == 1, "nothing is kept longer than its caller needs it"


def test_lanes_that_are_not_alone_are_all_met(store: PostgresStore) -> None:
    for tenant in ("a", "b"):
        several(store, *(f"{tenant}{n}" for n in range(3)), tenant=tenant)
    assert sorted(admitted_names(store, 2)) == ["a0", "b0"]
    assert sorted(admitted_names(store, 9)) == ["a1", "a2", "b1", "b2"]


# --- who is told -------------------------------------------------------------------------------------------------------------


def test_other_processes_hear_of_what_they_may_admit_and_not_of_what_was_taken(store: PostgresStore, other: PostgresStore) -> None:
    declare(store, limits={"at_once": 1})
    assert other.changed()
    several(store, "a", "b")
    assert other.changed(), "enqueued"
    (header,) = admitted(store, 9)
    assert not other.changed(), "another runner cannot take what was taken"
    ended(store, header)
    assert other.changed(), "a slot is free"
    row = store.queue(MAIL)
    assert row is not None
    assert store.set_queue(QueueRow(name=MAIL, operator={"limits": {"at_once": 5}}, mode=Mode.OPEN, revision=row.revision))
    assert other.changed(), "there are more slots"
    declare(store, limits={"at_once": 1})
    assert not other.changed(), "nothing was changed"


def test_an_admission_that_passed_over_a_locked_queue_is_tried_again(where: str, store: PostgresStore) -> None:
    several(store, "a")
    store.changed()
    with locked(where):
        assert admitted(store, 9) == []
        assert store.changed()
    assert admitted_names(store, 9) == ["a"]
    assert not store.changed()


def test_an_admission_waits_a_moment_for_a_queue_and_only_while_it_has_locked_nothing(
    where: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    several(store, "a")
    lock = locked(where)
    lock.__enter__()
    real, waiting = store._await, threading.Event()

    def wait(queue: str) -> None:
        assert not store._writer.run(b"SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowShareLock' AND granted")
        waiting.set()
        real(queue)

    monkeypatch.setattr(store, "_await", wait)
    with ThreadPoolExecutor(1) as pool:
        names = pool.submit(admitted_names, store, 9)
        waiting.wait()
        lock.__exit__(None, None, None)
        assert names.result() == ["a"]


def test_the_first_execution_of_an_ordered_key_is_not_passed_over(where: str, store: PostgresStore) -> None:
    declare(store, ordered=True)
    first, _ = several(store, "a", "b", key="k")
    with database() as rude, rude.transaction():
        rude.execute(f"SELECT 1 FROM {schema_of(where)}.executions WHERE id = %s FOR UPDATE".encode(), (first.id,))
        assert admitted(store, 9) == []
    assert admitted_names(store, 9) == ["a"]


def test_an_execution_that_another_process_is_writing_is_passed_over(where: str, store: PostgresStore) -> None:
    first, _ = several(store, "a", "b")
    with database() as rude, rude.transaction():
        rude.execute(f"SELECT 1 FROM {schema_of(where)}.executions WHERE id = %s FOR UPDATE".encode(), (first.id,))
        assert admitted_names(store, 9) == ["b"]
    assert admitted_names(store, 9) == ["a"]


# --- lanes that come and go --------------------------------------------------------------------------------------------------


def test_a_lane_that_is_forgotten_before_it_is_locked_is_made_again(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with joined(where, "here") as store, joined(where, "there") as other:
        ended(store, running(store, "a", key="k"))
        run, lock, once = store._writer.run, store._sql["locked_lanes"], [True]

        def interrupted(statement: Any, *given: Any, **more: Any) -> Any:
            if statement is lock and once:
                once.clear()
                for hours in (2, 4, 6):
                    forgotten(other, at(hours * 3600))
                assert [lane.key for lane in other.lanes(MAIL)] == [MAIL]
            return run(statement, *given, **more)

        monkeypatch.setattr(store._writer, "run", interrupted)
        several(store, "b", key="k", now=at(6 * 3600))
        check_counts(store)
        assert counted(store)[MAIL] == (0, 1)


def test_a_lane_is_made_with_the_limits_that_are_set_at_the_same_moment(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are set after the enqueue has read the settings, and before its lanes can be seen."""
    run, make = store._writer.run, store._sql["make_lanes"]
    setting = threading.Thread(target=lambda: declare(other, per_tenant={"at_once": 1}))

    def interrupted(statement: Any, *given: Any, **more: Any) -> Any:
        if statement is make:
            setting.start()
            with database() as looking:
                while not looking.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
                    assert setting.is_alive()
        return run(statement, *given, **more)

    monkeypatch.setattr(store._writer, "run", interrupted)
    several(store, "a", "b", tenant="x")
    setting.join()
    assert admitted_names(store, 9) == ["a"]


def test_what_was_refused_leaves_no_lane_and_no_queue(store: PostgresStore) -> None:
    declare(store, "tight", limits={"rates": ["1 tokens/m"]})
    starts = [queued("a", queue="tight", units=2), queued("b", queue="new", key="\0"), queued("c", queue="new", head_start_ms=-1)]
    assert all(isinstance(answer, HoldfastError) for answer in answers(store, *starts, queued("d", queue="tight", delay_ms=-1)))
    assert [row.name for row in store.queues()] == ["tight"]
    assert list(store.lanes("tight")) == []
    assert isinstance(answers(store, queued("e", queue="tight", tenant="x"), starts[0])[1], HoldfastError)
    assert [lane.key for lane in store.lanes("tight")] == ["tight", "tight/tenant=x", "tight/tenant=x/function=order:$LATEST"]


def test_nothing_is_enqueued_while_code_from_before_queues_may_use_the_store() -> None:
    where = new_schema()
    with joined(where, "here") as store:
        with database() as rows:
            rows.execute(f"UPDATE {schema_of(where)}.meta SET value = '8' WHERE key = 'least'".encode())
        (refused,) = answers(store, queued("a"))
        assert isinstance(refused, StoreNotMigrated)
        assert (list(store.queues()), list(store.lanes(MAIL)), admitted(store, 9)) == ([], [], [])


# --- lost connections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
def test_an_admission_whose_connection_was_cut_claims_once_or_not_at_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The statement was done, but its transaction was not: so nothing is claimed, and the next try claims."""
    several(store, "a", "b")
    Cut(store, monkeypatch, after=after)
    assert admitted(store, 9) == []
    assert store.held("here") == frozenset()
    assert store.changed(), "to be tried again"
    assert admitted_names(store, 9) == ["a", "b"]
    check_counts(store)


def test_an_admission_reads_and_locks_no_more_executions_than_the_queue_has_slots_for(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(store, limits={"at_once": 2})
    for tenant in ("large", "small"):
        several(store, *(f"{tenant} {n}" for n in range(20)), tenant=tenant)
    read: list[int] = []
    real = Session.run

    def run(session: Session, statement: bytes | Statement, *given: Any, **more: Any) -> Any:
        found = real(session, statement, *given, **more)
        if isinstance(statement, Statement) and b"ORDER BY order_at, id LIMIT" in statement.text:
            read.append(len(found))
        return found

    monkeypatch.setattr(Session, "run", run)
    assert len(admitted(store, 500)) == 2
    assert sum(read) == 2


class CutCommit(Cut):
    """Cuts the connection when a transaction is to be committed."""

    def run(self, session: Session, statement: bytes | Statement, *given: Any, **more: Any) -> Any:
        if statement != b"COMMIT":
            return self._real(session, statement, *given, **more)
        return super().run(session, b"WITH", *given, **more) if self._cut else self.cut(session)

    def cut(self, session: Session) -> Any:
        self._cut = True
        if self._after:
            self._real(session, b"COMMIT", prepare=False)
        session.connection.close()
        raise psycopg.OperationalError("the connection was cut")


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
def test_an_admission_whose_commit_was_cut_is_found_out_about(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    several(store, "a", "b")
    CutCommit(store, monkeypatch, after=after)
    names = admitted_names(store, 1)
    assert names == (["a"] if after else [])
    assert len(store.held("here")) == len(names)
    monkeypatch.undo()
    assert admitted_names(store, 9) == (["b"] if after else ["a", "b"])
    check_counts(store)


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
def test_what_an_admission_in_doubt_has_claimed_is_found_when_the_server_is_back(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    several(store, "a", "b")
    cut = CutCommit(store, monkeypatch, after=after, down=True)
    with pytest.raises(DiskFailed):
        admitted(store, 1)
    with pytest.raises(DiskFailed):
        store.held("here")
    cut.down = False
    held = store.held("here")
    assert len(held) == after
    monkeypatch.undo()
    for execution in held:  # as an engine does with what it does not know
        header = store.find(execution)
        assert header is not None
        assert written(store, settled(header, Outcome(OutcomeStatus.INTERRUPTED))).state is State.READY
    check_counts(store)
    assert len(admitted(store, 9)) == 2 - after


def test_a_write_in_doubt_is_answered_after_an_admission_found_out_about_it(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    start = queued("a", by=claimant())
    cut = CutCommit(store, monkeypatch, after=True, down=True)
    with pytest.raises(DiskFailed):
        answers(store, start)
    cut.down = False
    monkeypatch.undo()
    assert admitted(store, 9) == []
    (made,) = answers(store, start)
    assert getattr(made, "created", False), "it was this start that made it"
    check_counts(store)


# --- what must be true -------------------------------------------------------------------------------------------------------


def test_a_check_finds_lanes_that_are_not_what_a_recount_finds(where: str, store: PostgresStore) -> None:
    declare(store, limits={"rates": ["9/m"]})
    several(store, "a", "b", tenant="x")
    header = running(store, "c", queue="other")
    several(store, "late", queue="other", delay_ms=60_000)
    replaced = queued("c", '"new"', queue="other", same=Same.REPLACE)
    written(store, settled(header, Outcome(OutcomeStatus.SUCCEEDED, "1")))
    enqueued(store, replaced)
    assert [str(finding) for finding in checked(where).findings] == []
    with database() as rows:
        lanes = f"{schema_of(where)}.lanes"
        rows.execute(f"UPDATE {lanes} SET held = held + 1 WHERE key = '{MAIL}'".encode())
        rows.execute(f"UPDATE {lanes} SET waiting = waiting - 1 WHERE key = '{MAIL}/tenant=x'".encode())
        rows.execute(f"DELETE FROM {lanes} WHERE key = 'other'".encode())
        rows.execute(f"INSERT INTO {schema_of(where)}.rates VALUES ('gone', 'runs', 1, 1, 1)".encode())
    findings = {(finding.name, finding.where) for finding in checked(where).findings}
    assert findings == {
        ("lanes_miscounted", f"lane {MAIL}"),
        ("lanes_miscounted", f"lane {MAIL}/tenant=x"),
        ("lanes_miscounted", "lane other"),
        ("lanes_lost", "lane other/tenant=default"),
        ("rates_lost", "lane gone"),
    }


# --- all at once -------------------------------------------------------------------------------------------------------------


def deadlocks() -> int:
    with database() as rows:
        rows.execute("SELECT pg_stat_force_next_flush()")
        found = rows.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
        assert found is not None
        return int(found[0])


def together(*acts: Callable[[], None]) -> None:
    """Let threads begin at the same moment, and wait for all."""
    gate = threading.Barrier(len(acts))

    def begin(act: Callable[[], None]) -> None:
        gate.wait()
        act()

    with ThreadPoolExecutor(len(acts)) as pool:
        for future in [pool.submit(begin, act) for act in acts]:
            future.result()


@pytest.mark.parametrize("rounds", [12, pytest.param(150, marks=pytest.mark.long)])
def test_enqueues_admissions_and_ends_at_once_wait_for_each_other_never_in_a_ring(where: str, rounds: int) -> None:
    """Two processes enqueue, two admit and end, one stops what waits, one sets limits and forgets lanes."""
    before = deadlocks()
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(joined(where, f"p{n}")) for n in range(6)]
        declare(stores[0], limits={"at_once": 7}, per_tenant={"at_once": 3, "rates": ["100000/s"]})
        over = threading.Event()
        done = list[str]()

        def enqueue(n: int, store: PostgresStore) -> None:
            chance = Random(n)
            for k in range(rounds):
                starts: list[Start] = []
                for place in range(chance.randrange(1, 9)):
                    by = claimant(f"p{n}") if chance.random() < 0.2 else None
                    queue, key, tenant = chance.choice([MAIL, "post"]), chance.choice([None, "k", "l"]), f"t{chance.randrange(4)}"
                    made = {"id": f"019b76da-a800-7{n:03x}-8{k:03x}-{place:012x}", "tenant": tenant}
                    starts.append(queued(f"{n}-{k}-{place}", by=by, queue=queue, key=key, **made))  # type: ignore[arg-type]
                for header in enqueued(store, *starts):
                    if header.state is State.RUNNING:
                        done.append(ended(store, header).id)

        def admit(n: int, store: PostgresStore) -> None:
            idle = 0
            while idle < 3:
                taken = admitted(store, 5, runner=f"p{n}")
                for lane in store.lanes(MAIL, limit=100):
                    assert lane.held <= (3 if lane.level == "tenant" else 7), "the operator never allows more"
                batch = [settled(header, Outcome(OutcomeStatus.SUCCEEDED, "1", used=n)) for header in taken]
                for answer in answers(store, *batch) if batch else ():
                    if isinstance(answer, LeaseLost):
                        continue  # it was stopped
                    assert isinstance(answer, Execution)
                    done.append(answer.id)
                idle = idle + 1 if over.is_set() and not taken and not store.changed() else 0

        def stop_some(store: PostgresStore) -> None:
            chance = Random(7)
            while not over.is_set():
                with database() as rows:
                    found = rows.execute(
                        f"SELECT id FROM {schema_of(where)}.executions WHERE state = 'queued' ORDER BY id DESC LIMIT 3".encode()
                    ).fetchall()
                for (execution,) in found:
                    if chance.random() < 0.3:
                        header = written(store, Stop(execution))
                        if header.status is ExecutionStatus.STOPPED:
                            done.append(header.id)

        def operate(store: PostgresStore) -> None:
            n = 0
            while not over.is_set():
                n += 1
                row = store.queue(MAIL)
                assert row is not None
                store.set_queue(QueueRow(name=MAIL, operator={"limits": {"at_once": 5 + n % 3}}, mode=row.mode, revision=row.revision))
                store.expire(T0 + 4 * 3_600_000, 10)
                with database() as rows:  # so that lanes are idle for long, and forgotten
                    lanes = f"{schema_of(where)}.lanes"
                    idle = f"SELECT key FROM {lanes} WHERE held = 0 AND waiting = 0 FOR UPDATE SKIP LOCKED"
                    rows.execute(f"UPDATE {lanes} SET drained_at = 0 WHERE key = ANY(ARRAY({idle}))".encode())

        def enqueue_both() -> None:
            try:
                together(lambda: enqueue(0, stores[0]), lambda: enqueue(1, stores[1]))
            finally:
                over.set()

        together(
            enqueue_both,
            lambda: admit(2, stores[2]),
            lambda: admit(3, stores[3]),
            lambda: stop_some(stores[4]),
            lambda: operate(stores[5]),
        )
        while left := admitted(stores[0], 100):
            done += [ended(stores[0], header).id for header in left]
        assert set(counted(stores[0])) | set(counted(stores[0], "post")) == set()
        check_counts(stores[0])
        with database() as rows:
            made = {row[0] for row in rows.execute(f"SELECT id FROM {schema_of(where)}.executions".encode()).fetchall()}
        assert set(done) == made, "all ended"
    assert [str(finding) for finding in checked(where).findings] == []
    assert deadlocks() == before


# --- the naive model ---------------------------------------------------------------------------------------------------------


class StarvedInDatabase(Starved):
    """A store in a database and the naive model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.store.close()
        self.store = PostgresStore(empty_store(), "here")  # type: ignore[assignment]  # the model asks only what both can
        self.store.join("here", LEASE)


def test_lanes_in_a_database_are_what_a_naive_model_says_after_random_writes_and_nothing_starves() -> None:
    how = settings(max_examples=examples(25), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    run_state_machine_as_test(StarvedInDatabase, settings=how)
