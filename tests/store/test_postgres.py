"""The store of a fleet: the suite, and what only Postgres, its schemas and its clock can get wrong."""

import contextlib
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.model.clock import SystemClock
from holdfast.model.errors import (
    CodecMismatch,
    ExtraMissing,
    HoldfastError,
    InvalidParameter,
    StoreBroken,
    StoreUnsuitable,
)
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.operations import Action, Status
from holdfast.model.verbs import Checkpointed
from holdfast.store.backends import open_store
from holdfast.store.encryption import AesGcm
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.seam import Filter
from holdfast.store.shown_address import shown
from holdfast.testing.stores import Opening, SharedStoreSuite
from holdfast.testing.stores.writes import (
    LEASE,
    OOPS,
    after,
    answers,
    callback,
    checkpoint,
    live,
    settled,
    started,
    step,
    written,
)
from tests.postgres import database, empty_store, new_schema, schema_of

KEY = bytes(range(32))


@pytest.fixture
def where() -> str:
    """A store that is not made yet."""
    return new_schema()


@pytest.fixture
def store(where: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(where, "here")) as store:
        store.join("here", LEASE)
        yield store


class TestPostgres(SharedStoreSuite):
    @pytest.fixture
    def opening(self) -> Iterator[Opening]:
        where = empty_store()
        with contextlib.ExitStack() as stores:
            yield lambda member: stores.enter_context(contextlib.closing(open_store(where, member)))


def refusal(where: str) -> HoldfastError:
    with pytest.raises(HoldfastError) as refused:
        open_store(where, "here")
    return refused.value


# --- opening -----------------------------------------------------------------------------------------------------------------


def test_without_its_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("holdfast.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    refused = refusal("postgresql://somewhere/db")
    assert isinstance(refused, ExtraMissing)
    assert str(refused) == "A Postgres store needs the package `psycopg`: pip install 'holdfast[postgres]'."


def test_the_short_scheme_opens_the_same_store(where: str, store: PostgresStore) -> None:
    with contextlib.closing(open_store(where.replace("postgresql://", "postgres://"), "there")) as other:
        assert other.find(started(store, "a").id) is not None


def test_several_processes_may_make_the_store_at_the_same_moment(where: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda n: PostgresStore(where, f"maker-{n}"), range(4)))
    sealed = {store.seal.callback("00000000-0000-7000-8000-000000000000", "same key") for store in stores}
    for store in stores:
        store.close()
    assert len(sealed) == 1, "one key for all"


def test_two_schemas_of_a_database_are_two_stores(store: PostgresStore) -> None:
    with contextlib.closing(PostgresStore(new_schema(), "there")) as other:
        assert not other.changed()
        header = started(store, "a")
        assert not other.changed()
        assert other.find(header.id) is None
        assert started(other, "a").id != header.id


def test_a_store_of_a_newer_schema_that_we_cannot_bear_is_refused_and_left_alone(where: str) -> None:
    PostgresStore(where, "here").close()
    with database() as rows:
        rows.execute(f"UPDATE {schema_of(where)}.meta SET value = '99' WHERE key IN ('schema', 'least')".encode())
    refused = refusal(where)
    assert isinstance(refused, StoreUnsuitable)
    assert "99" in str(refused)


@pytest.mark.parametrize("table", ["diary (day TEXT)", "meta (day TEXT)", "meta (key TEXT, value TEXT)"])
def test_somebody_elses_schema_is_refused_and_left_as_it_was(where: str, table: str) -> None:
    schema = schema_of(where)
    with database() as rows:
        rows.execute(f"CREATE SCHEMA {schema}".encode())
        rows.execute(f"CREATE TABLE {schema}.{table}".encode())
        assert isinstance(refusal(where), StoreUnsuitable)
        found = rows.execute("SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'", (schema,))
        assert found.fetchone() == (1,)


def test_an_empty_schema_that_the_owner_has_made_is_used(where: str) -> None:
    with database() as rows:
        rows.execute(f"CREATE SCHEMA {schema_of(where)}".encode())
    with contextlib.closing(PostgresStore(where, "here")) as store:
        started(store, "a")


def test_a_user_that_may_not_make_a_schema_is_told_so(where: str) -> None:
    with database() as rows:
        rows.execute("DROP ROLE IF EXISTS guest")
        rows.execute("CREATE ROLE guest LOGIN")
    refused = refusal(where.replace("postgres:@", "guest:@"))
    assert isinstance(refused, StoreUnsuitable)
    assert "permission denied" in str(refused)


def test_a_database_that_cannot_hold_every_text_is_refused(where: str) -> None:
    with database() as rows:
        rows.execute("CREATE DATABASE western TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        try:
            refused = refusal(re.sub(r"/\w+\?", "/western?", where))
        finally:
            rows.execute("DROP DATABASE western")
    assert isinstance(refused, StoreUnsuitable)
    assert "LATIN1" in str(refused)


def test_a_server_that_is_not_there_is_said_clearly_and_without_the_password(tmp_path: Path) -> None:
    refused = refusal(f"postgresql://me:secret@/db?host={tmp_path}")
    assert (type(refused), refused.code) == (StoreBroken, "store_broken")
    assert "postgresql://me@/db" in str(refused)
    assert "secret" not in str(refused)


@pytest.mark.parametrize("query", ["schema=Bad", "schema=1st", "schema=", "schema=a-b", "unknown=1", "port=x%20y"])
def test_an_address_that_cannot_be_meant_is_refused(query: str) -> None:
    refused = refusal(f"postgresql://me:secret@localhost:1/db?{query}")
    assert isinstance(refused, InvalidParameter | StoreBroken)
    assert "secret" not in str(refused)


@pytest.mark.parametrize(
    "password", ["sec%ret", "sec ret", "sec/ret", "sec?ret", "sec#ret", "sec@ret", 'sec"%ret', "sec[ret", "sec\u2100ret"]
)
def test_a_password_that_is_not_encoded_is_in_no_message(password: str) -> None:
    refused = refusal(f"postgresql://me:{password}@localhost:1/db")
    assert isinstance(refused, InvalidParameter | StoreBroken)
    assert [part for part in ("sec", "ret") if part in str(refused)] == []


@pytest.mark.parametrize(
    "where, read",
    [
        ("postgresql://me:sec/re@t?@host:1/db?schema=a", "postgresql://me@host:1/db?schema=a"),
        ("postgresql://me:secret@host:1/db?schema=a", "postgresql://me@host:1/db?schema=a"),
        ("postgresql://me:s:e%40t@one:1,two:2/db", "postgresql://me@one:1,two:2/db"),
        ("postgres://host/db?password=secret&schema=a", "postgres://host/db?schema=a"),
        ("postgresql://me@/db?host=/tmp&password=secret", "postgresql://me@/db?host=/tmp&"),
        ("a folder/with:a@strange.db", "a folder/with:a@strange.db"),
    ],
)
def test_people_never_read_the_password(where: str, read: str) -> None:
    assert shown(where) == read


# --- what is stored ----------------------------------------------------------------------------------------------------------


def test_every_payload_comes_back_as_it_was(store: PostgresStore) -> None:
    payloads = ["\0", "\x01", "\x010", "\x01\0\x011", '"\\"\\\\{},NULL', "NULL", "", "{}", " ", "\\", "é\n\t"]
    header = live(store, "a", *(step(f"s{n}", Action.SUCCEED, payload=text) for n, text in enumerate(payloads)))
    header = after(store, header, step("nothing", Action.SUCCEED), step("failed", Action.FAIL, error=OOPS))
    *texts, nothing, failed = store.operations(header.id)
    assert [op.result for op in texts] == payloads
    assert (nothing.result, failed.error) == (None, OOPS)
    assert [line.event.payload for line in store.history(header.id, after=1, limit=len(payloads))] == payloads
    for payload in payloads:
        closed = written(store, settled(live(store, f"with {payload!r}"), Outcome(OutcomeStatus.SUCCEEDED, payload)))
        assert store.result(closed) == payload


def test_a_name_that_postgres_has_no_text_for_is_refused_and_spoils_no_other(store: PostgresStore) -> None:
    bad, good = live(store, "bad"), live(store, "good")
    refused, also_refused, accepted = answers(
        store, checkpoint(bad, step("s", name="a\0b")), checkpoint(bad, step("s"), client="\0"), checkpoint(good, step("s"))
    )
    assert isinstance(refused, InvalidParameter)
    assert isinstance(also_refused, InvalidParameter)
    assert isinstance(accepted, Checkpointed)
    assert store.find("\0") is None


def test_payloads_are_encoded_at_rest_and_only_the_right_keys_open_the_store(where: str) -> None:
    codec = AesGcm({"k": KEY}, "k")
    with contextlib.closing(PostgresStore(where, "here", codec)) as store:
        header = live(store, "a", step("s", Action.SUCCEED, payload='"a secret"'))
        assert [op.result for op in store.operations(header.id)] == ['"a secret"']
    with database() as rows:
        stored = rows.execute(f"SELECT payload FROM {schema_of(where)}.events".encode()).fetchall()
    assert not [text for (text,) in stored if text is not None and "secret" in text]
    assert isinstance(refusal(where), CodecMismatch)
    with pytest.raises(CodecMismatch):
        PostgresStore(where, "here", AesGcm({"k": bytes(32)}, "k"))


# --- plans -------------------------------------------------------------------------------------------------------------------

INDEXES = {
    "header": "executions_by_id",
    "headers": "executions_by_id",
    "locked_headers": "executions_by_id",
    "named": "executions_by_name",
    "all_named": "executions_by_name",
    "claimable": "executions_ready_of executions_held",
    "suspect": "executions_suspect",
    "schedule": "schedules_pkey",
    "due_schedules": "schedules_by_time",
    "waiting_schedules": "schedules_waiting",
    "next_schedule": "schedules_by_time",
    "due": "executions_due",
    "next_due": "executions_due executions_ready_of lanes_closed",
    "children": "executions_invoked",
    "holders": "executions_held",
    "held": "executions_held",
    "payload": "executions_by_id events_pkey",
    "history": "executions_by_id events_pkey",
    "all_events": "events_pkey",
    "operations": "executions_by_id operations_pkey events_pkey",
    "newer_operations": "operations_pkey events_pkey",
    "operation": "operations_pkey events_pkey",
    "these_operations": "operations_pkey events_pkey",
    "due_operations": "operations_due events_pkey",
    "all_due_operations": "operations_due events_pkey",
    "next_due_operation": "operations_due",
    "all_next_due_operations": "operations_due",
    "ready_operation": "operations_ready",
    "expire_executions": "executions_expiring executions_pkey",
    "signals": "signals_pkey",
    "locked_lanes": "lanes_pkey",
    "lock_lanes": "lanes_of_queue",
    "lanes_there": "lanes_pkey",
    "lanes": "lanes_of_queue",
    "rates": "rates_pkey",
    "oldest": "executions_waiting",
    "has_open_lane": "lanes_open lanes_closed lanes_of_function",
    "open_queues": "lanes_open lanes_closed lanes_pkey rates_pkey",
    "reopen_lanes": "lanes_closed lanes_pkey",
    "open_lanes": "lanes_open rates_pkey",
    "passed_queue": "lanes_open lanes_of_function",
    "heads": "executions_in_lane events_pkey",
    "open_below": "lanes_open rates_pkey",
    "heads_below": "executions_in_lane events_pkey",
    "first_head": "executions_in_lane",
    "next_of_key": "executions_in_lane lanes_pkey",
    "ahead": "executions_in_lane",
    "idle_lanes": "lanes_idle",
    "drop_lanes": "lanes_pkey rates_pkey executions_in_lane",
    "parked": "executions_parked",
    "parked_in": "executions_parked",
    "queue_state": "executions_waiting executions_delayed executions_parked lanes_pkey",
    "queue_state_of": "executions_delayed executions_parked lanes_pkey",
    "waiting_in": "lanes_pkey",
    "cost_samples": "ledger_by_pipeline",
    "cost_samples_of_worker": "ledger_by_worker",
    "audit": "audit_by_time audit_pkey",
}


def plan_of(store: PostgresStore, text: str) -> str:
    """The plan of a statement for any values of its parameters: the one that is made once and kept."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text)
    for number in range(text.count("%s")):
        text = text.replace("%s", f"${number + 1}", 1)
    return "\n".join(line for (line,) in store._side.run(f"EXPLAIN (GENERIC_PLAN) {text}".encode(), prepare=False))


def indexes_of(plan: str) -> set[str]:
    assert "Seq Scan" not in plan
    return set(re.findall(r"using (\w+) on", plan))


def test_every_question_of_a_runner_finds_its_index_even_if_it_is_planned_on_empty_tables(store: PostgresStore) -> None:
    found = {name: indexes_of(plan_of(store, store._texts[name])) for name in INDEXES}
    assert found == {name: set(names.split()) for name, names in INDEXES.items()}


@pytest.mark.parametrize("name", ["all_named", "has_open_lane", "open_queues", "passed_queue", "claimable", "next_due"])
def test_what_is_asked_for_many_is_looked_up_one_by_one_even_if_it_is_planned_on_empty_tables(store: PostgresStore, name: str) -> None:
    plan = plan_of(store, store._texts[name])
    assert "Join Filter" not in plan, "it would read all rows, and throw most of them away"


@pytest.mark.parametrize(
    "wanted, index",
    [
        (Filter(), "executions_by_id"),
        (Filter(oldest_first=True, beyond="x"), "executions_by_id"),
        (Filter(function="order"), "executions_by_function"),
        (Filter(parent="x"), "executions_by_parent"),
        (Filter(queue="emails"), "executions_by_queue"),
        (Filter(statuses=(ExecutionStatus.RUNNING,)), "executions_by_status"),
        (Filter(statuses=(ExecutionStatus.STOPPED, ExecutionStatus.FAILED), beyond="x"), "executions_by_status"),
    ],
)
def test_a_page_of_a_list_is_read_and_never_sorted_out_of_everything(store: PostgresStore, wanted: Filter, index: str) -> None:
    question, _ = store._lists.of(wanted)
    plan = plan_of(store, question)
    assert indexes_of(plan) == {index}
    assert plan.count("Limit  (") >= plan.count("Index Scan"), "no more than a page of each"
    assert "Sort  (" not in plan


# --- time --------------------------------------------------------------------------------------------------------------------


class Machine(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead

    def now(self) -> int:
        return super().now() + self.ahead


@pytest.mark.parametrize("ahead", [-3_600_000, 0, 3_600_000])
def test_a_machine_whose_clock_is_wrong_keeps_the_databases_time(store: PostgresStore, ahead: int) -> None:
    machine = Machine(ahead)
    clock = store.clock(machine)
    right = SystemClock().now()
    assert abs(clock.now() - right) < 1_000
    machine.ahead += 60_000  # an operator sets the clock
    assert store.renew("here", LEASE)
    assert abs(clock.now() - SystemClock().now()) < 1_000


def test_clocks_that_agree_as_far_as_can_be_told_are_left_alone() -> None:
    machine = Machine(0)
    clock = DatabaseClock(machine)
    clock.compare(1_000, 1_000, 1_001)
    assert abs(clock.now() - machine.now()) < 100
    clock.compare(1_000, 5_001, 1_002)
    assert 4_000 <= clock.now() - machine.now() + 100 < 4_200


# --- news --------------------------------------------------------------------------------------------------------------------


def test_an_ordinary_checkpoint_is_nobody_elses_business(where: str, store: PostgresStore) -> None:
    header = live(store, "a")
    with contextlib.closing(PostgresStore(where, "there")) as other:
        header = after(store, header, step("s"))
        assert not other.changed()
        after(store, header, callback("c"), step("s", Action.SUCCEED))
        assert not other.changed()
        assert [op.status for op in other.operations(header.id)] == [Status.SUCCEEDED, Status.STARTED]


def test_a_runner_that_leaves_is_news(where: str, store: PostgresStore) -> None:
    with contextlib.closing(PostgresStore(where, "there")) as other:
        store.leave("here")
        assert other.changed()
