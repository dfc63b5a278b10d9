"""Other processes on one database, and connections that are lost: nothing is written twice, nothing is lost, no process waits for ever."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from holdfast.model.charges import Charge, Counter
from holdfast.model.errors import CallbackClosed, CodecFailed, DiskFailed, HoldfastError, StoreBusy
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms, graph_text
from holdfast.model.history import EventType as E
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Status
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpointed, Start, Started, Write
from holdfast.store.encryption import AesGcm
from holdfast.store.postgres.session import Session, Statement
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.stores.chained_writes import birth, invoking
from holdfast.testing.stores.writes import (
    LEASE,
    ORDER,
    T0,
    after,
    answers,
    at,
    callback,
    checkpoint,
    claim,
    live,
    now_at,
    settled,
    started,
    step,
    story,
    suspended,
    wanted,
    written,
)
from tests.postgres import database, empty_store, new_schema, schema_of

PENDING = Outcome(OutcomeStatus.PENDING)


@pytest.fixture
def where() -> str:
    return empty_store()


@contextlib.contextmanager
def joined(where: str, member: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(where, member)) as store:
        store.join(member, LEASE)
        yield store


@pytest.fixture
def store(where: str) -> Iterator[PostgresStore]:
    with joined(where, "p0") as store:
        yield store


@pytest.fixture
def other(where: str) -> Iterator[PostgresStore]:
    with joined(where, "p1") as other:
        yield other


# --- several at once ---------------------------------------------------------------------------------------------------------


def test_a_subscriber_is_told_of_every_batch_that_ends_after_it_was_registered(where: str, store: PostgresStore) -> None:
    """A batch that began before it does not know of it, so its end is waited for."""
    done = threading.Event()

    def subscribe() -> None:
        store.subscribe("billing")
        done.set()

    with database() as rows, database() as looking:
        rows.execute("BEGIN")
        rows.execute(f"LOCK TABLE {schema_of(where)}.executions IN ROW EXCLUSIVE MODE".encode())  # as a writer does
        thread = threading.Thread(target=subscribe)
        thread.start()
        while not looking.execute("SELECT 1 FROM pg_locks WHERE mode = 'ShareLock' AND NOT granted").fetchall():
            assert thread.is_alive()
        assert not done.is_set()
        rows.execute("COMMIT")
        thread.join()


class Choosy(AesGcm):
    """Fails for some texts, as a key service may."""

    def encode(self, text: str, about: str) -> str:
        if "poison" in text:
            raise RuntimeError("no key today")
        return super().encode(text, about)


def test_what_cannot_be_written_with_all_it_brings_is_not_written_at_all() -> None:
    with contextlib.closing(PostgresStore(new_schema(), "p0", Choosy({"k": bytes(32)}, "k"))) as store:
        store.join("p0", LEASE)
        parent, beside = live(store, "parent", runner="p0"), live(store, "beside", runner="p0")
        child = birth(parent)
        poisoned = invoking(parent, msgspec.structs.replace(child, input="poison"))
        refused, accepted = answers(store, poisoned, checkpoint(beside, step("s")))
        assert isinstance(refused, CodecFailed)
        assert isinstance(accepted, Checkpointed)
        assert (list(store.operations(parent.id)), store.find(child.header.id)) == ([], None)
        assert now_at(store, parent) == parent
        (again,) = answers(store, invoking(parent, child))
        assert isinstance(again, Checkpointed), "its token was not used up"
        assert store.input(child.header.id) == "[1]"
        assert story(store, parent) == [E.EXECUTION_STARTED, E.CHAINED_INVOKE_STARTED]


# --- memory that is behind ---------------------------------------------------------------------------------------------------


def test_a_refusal_is_never_decided_on_what_somebody_else_has_changed(store: PostgresStore, other: PostgresStore) -> None:
    header = live(store, "a", runner="p0")
    written(other, settled(header, Outcome(OutcomeStatus.INTERRUPTED)))
    assert written(store, claim(header, "p0")).epoch == 3, "in memory it is still running"


def test_an_answer_that_changes_nothing_is_never_what_memory_held(store: PostgresStore, other: PostgresStore) -> None:
    header = live(store, "a", callback("c"), runner="p0")
    written(other, Answering(header.id, "c", "1"))
    (late,) = answers(store, Answering(header.id, "c", "2"))
    assert isinstance(late, CallbackClosed)
    written(other, Stop(header.id))
    assert written(store, Stop(header.id)).status is ExecutionStatus.STOPPED


def test_a_lone_checkpoint_of_what_runs_here_is_one_statement(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    header = live(store, "a", runner="p0")
    said, real = list[bytes](), Session.run

    def run(self: Session, statement: bytes, *given: Any, **more: Any) -> Any:
        said.append(statement)
        return real(self, statement, *given, **more)

    monkeypatch.setattr(Session, "run", run)
    answers(store, checkpoint(header, step("s"), step("s", Action.SUCCEED, payload="1")))
    assert len(said) == 1


def test_a_batch_of_any_size_is_a_few_statements(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [suspended(store, f"n{n}", callback("c"), callback("d", timeout=60), runner="p0") for n in range(50)]
    said, real = list[bytes](), Session.run

    def run(self: Session, statement: bytes, *given: Any, **more: Any) -> Any:
        said.append(statement)
        return real(self, statement, *given, **more)

    monkeypatch.setattr(Session, "run", run)
    batch = [Answering(header.id, "c", "1") for header in headers]
    assert not [answer for answer in answers(store, *batch, now=at(2)) if isinstance(answer, HoldfastError)]
    assert len(said) == 3, "headers, operations, and the batch"
    said.clear()
    both: list[Write] = [*(claim(header, "p0") for header in headers), *(wanted(f"new-{n}") for n in range(50))]
    assert not [answer for answer in answers(store, *both, now=at(61)) if isinstance(answer, HoldfastError)]
    assert len(said) == 5, "headers, names, two for timers, and the batch"
    assert {op.status for header in headers for op in store.operations(header.id)} == {Status.SUCCEEDED, Status.TIMED_OUT}


# --- locks -------------------------------------------------------------------------------------------------------------------


def test_a_row_that_somebody_keeps_locked_is_busy_and_work_goes_on_afterwards(where: str, store: PostgresStore) -> None:
    header = live(store, "a", runner="p0")
    store._writer.run(b"SET lock_timeout = '20ms'")
    with database() as rude:
        rude.execute("BEGIN")
        rude.execute(f"SELECT 1 FROM {schema_of(where)}.executions FOR UPDATE".encode())
        with pytest.raises(StoreBusy) as refused:
            after(store, header, step("s"))
        assert refused.value.code == "store_busy"
        assert now_at(store, header) == header, "who only looks does not wait"
        assert store.renew("p0", LEASE)
    assert [op.id for op in store.operations(after(store, header, step("s")).id)] == ["s"]


def test_a_process_that_stands_still_in_a_transaction_loses_it(store: PostgresStore) -> None:
    ((patience,),) = store._writer.run(b"SHOW idle_in_transaction_session_timeout")
    assert patience == "10s"


# --- lost connections --------------------------------------------------------------------------------------------------------


def end_connections(*sessions: Session) -> None:
    """As a restart of the server does."""
    with database() as rows:
        for session in sessions:
            ended = rows.execute("SELECT pg_terminate_backend(%s, 5000)", (session.connection.info.backend_pid,)).fetchone()
            assert ended == (True,)


def test_work_goes_on_after_the_connections_were_lost(store: PostgresStore, other: PostgresStore) -> None:
    header = live(store, "a", runner="p0")
    end_connections(store._writer, store._side)
    header = after(store, header, step("s"))
    assert [op.id for op in store.operations(header.id)] == ["s"]
    end_connections(store._side)
    assert store.renew("p0", LEASE)
    end_connections(store._writer)
    assert list(store.due(at(9999), 10)) == [header.id]
    (answer,) = answers(store, Stop(wanted("missing").header.id))
    assert isinstance(answer, HoldfastError)


def test_what_was_said_while_there_was_no_connection_counts_as_news(store: PostgresStore, other: PostgresStore) -> None:
    store.changed()
    end_connections(store._side)
    assert store.changed()
    assert not store.changed()
    started(other, "a")
    assert store.changed(), "it listens again"


class Cut:
    """Cuts the connection when a batch is written: before the server hears of it, or after it has done it."""

    def __init__(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, after: bool, down: bool = False) -> None:
        self.down = down
        """The server cannot be reached again, either."""
        self._real, self._open = Session.run, Session._open
        self._session = store._writer
        self._after = after
        self._cut = False
        monkeypatch.setattr(Session, "run", lambda *given, **more: self.run(*given, **more))
        monkeypatch.setattr(Session, "_open", lambda session: self.open(session))

    def run(self, session: Session, statement: bytes | Statement, *given: Any, **more: Any) -> Any:
        text = statement.text if isinstance(statement, Statement) else statement
        if session is not self._session or self._cut or not text.startswith(b"WITH"):
            return self._real(session, statement, *given, **more)
        self._cut = True
        if self._after:
            self._real(session, statement, *given, **more)
        session.connection.close()
        raise psycopg.OperationalError("the connection was cut")

    def open(self, session: Session) -> None:
        if self.down:
            raise psycopg.OperationalError("the server is down")
        self._open(session)


def claiming(name: str) -> Start:
    return msgspec.structs.replace(wanted(name), by=Claimant("p0", f"invocation of {name}"))


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
def test_a_batch_whose_connection_was_cut_is_written_once(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    ready, running, waiting = started(store, "ready"), live(store, "running", runner="p0"), suspended(store, "waiting", callback("c"))
    Cut(store, monkeypatch, after=after)
    batch = (claim(ready, "p0"), checkpoint(running, step("s")), Answering(waiting.id, "c", "1"), claiming("new"))
    taken, went_on, answered, made = answers(store, *batch, now=at(2))
    assert isinstance(taken, Execution)
    assert isinstance(went_on, Checkpointed)
    assert isinstance(answered, Execution)
    assert isinstance(made, Started)
    assert made.created
    assert (taken.epoch, now_at(store, ready).epoch) == (1, 1)
    assert story(store, running) == [E.EXECUTION_STARTED, E.STEP_STARTED]
    assert story(store, waiting).count(E.CALLBACK_SUCCEEDED) == 1
    assert went_on.token is not None
    (next_one,) = answers(store, msgspec.structs.replace(checkpoint(running, step("t")), at=went_on.token))
    assert isinstance(next_one, Checkpointed), "the token of the answer is the one that counts"


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
@pytest.mark.parametrize("name", ["claim", "checkpoint", "settle", "start"])
def test_a_write_in_doubt_is_kept_until_the_server_is_back(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, after: bool, name: str
) -> None:
    ready, running = started(store, "ready"), live(store, "running", callback("c"), runner="p0")
    writes: dict[str, Write] = {
        "claim": claim(ready, "p0"),
        "checkpoint": checkpoint(running, step("s")),
        "settle": settled(running, PENDING),
        "start": claiming("new"),
    }
    write = writes[name]
    cut = Cut(store, monkeypatch, after=after, down=True)
    for _ in range(2):
        with pytest.raises(DiskFailed) as refused:
            answers(store, write)
        assert refused.value.code == "disk_failed"
    cut.down = False
    (answer,) = answers(store, write)
    assert not isinstance(answer, HoldfastError)
    match name:
        case "claim":
            assert (now_at(store, ready).epoch, now_at(store, ready).state) == (1, State.RUNNING)
        case "checkpoint":
            assert story(store, running).count(E.STEP_STARTED) == 1
        case "settle":
            assert story(store, running).count(E.INVOCATION_COMPLETED) == 1
            assert now_at(store, running).state is State.SUSPENDED
        case _:
            assert isinstance(answer, Started)
            assert answer.created
            assert list(store.claimable(ORDER, (), T0, 10)) == [ready.id]


GRAPH = graph_text('{"nodes":[]}')
LONG_AFTER = T0 + 30 * 86_400_000


def running(name: str) -> Start:
    return msgspec.structs.replace(wanted(name, "{}", terms=Terms(3600, 1)), graph=GRAPH)


def test_a_graph_that_a_start_is_about_to_name_is_not_removed_and_the_removal_does_not_wait(
    where: str, store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last execution that names it is removed after the start found the graph, and before the start is committed."""
    written(store, Stop(written(store, running("old")).id))
    run, kept = store._writer.run, store._sql["kept_graphs"]

    def interrupted(statement: Any, *given: Any, **more: Any) -> Any:
        rows = run(statement, *given, **more)
        if statement is kept:
            while other.expire(LONG_AFTER, 100):
                pass
        return rows

    monkeypatch.setattr(store._writer, "run", interrupted)
    written(store, running("new"))
    assert store.graph(GRAPH.id) == GRAPH.text
    with database() as rows:
        assert rows.execute(f"SELECT count(*) FROM {schema_of(where)}.expired".encode()).fetchone() == (1,), "to be looked at again"
    assert other.expire(LONG_AFTER, 100) is False
    assert store.graph(GRAPH.id) == GRAPH.text
    with database() as rows:
        assert rows.execute(f"SELECT count(*) FROM {schema_of(where)}.expired".encode()).fetchone() == (0,)


def test_a_start_that_comes_while_its_graph_is_removed_adds_it_again(
    where: str, store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(store, Stop(written(store, running("old")).id))
    ask, drop = other._side.ask, other._sql["drop_graph"]
    thread = threading.Thread(target=lambda: written(store, running("new")))

    def interrupted(statement: Any, *given: Any, **more: Any) -> Any:
        if statement is drop and not thread.ident:
            thread.start()
            with database() as looking:
                while not looking.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
                    assert thread.is_alive(), "the start did not wait for the removal"
        return ask(statement, *given, **more)

    monkeypatch.setattr(other._side, "ask", interrupted)
    while other.expire(LONG_AFTER, 100):
        pass
    thread.join()
    assert store.find_named("order", "new") is not None
    assert store.graph(GRAPH.id) == GRAPH.text


def test_a_counter_that_is_forgotten_before_it_is_locked_is_charged_all_the_same(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def charged(name: str, until: int) -> Start:
        return msgspec.structs.replace(wanted(name), charges=(Charge("rate", 1, 2, until),))

    with joined(where, "a") as store, joined(where, "b") as other:
        answers(store, charged("x", at(60)))
        run, make = store._writer.run, store._sql["make_counters"]

        def interrupted(statement: Any, *given: Any, **more: Any) -> Any:
            rows = run(statement, *given, **more)
            if statement is make:
                other.expire(at(61), 100)
            return rows

        monkeypatch.setattr(store._writer, "run", interrupted)
        answers(store, charged("y", at(120)), now=at(61))
        assert store.counters(["rate"]) == [Counter("rate", 1, at(120))]
