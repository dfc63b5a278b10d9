"""A store with a payload codec: the whole suite again, and what only a codec can get wrong."""

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.model.errors import CodecFailed, CodecMismatch, ExecutionAlreadyStarted, HoldfastError, RowDamaged
from holdfast.model.execution import Birth, GraphText, Outcome, OutcomeStatus, State, graph_text
from holdfast.model.follow_ups import Return
from holdfast.model.operations import Action, Failure, Status, Type, Update
from holdfast.model.outside import Fire, Release
from holdfast.model.payloads import PayloadCodec
from holdfast.model.schedule_times import Timing
from holdfast.model.schedules import Definition, Occurrence, Origin, changed, new_schedule
from holdfast.model.verbs import Checkpoint, Checkpointed, Start, Started
from holdfast.store.encryption import AesGcm
from holdfast.store.sqlite.connection import load_queries
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores import Opening, SharedStoreSuite
from holdfast.testing.stores.writes import (
    LEASE,
    after,
    answers,
    at,
    checkpoint,
    claim,
    live,
    now_at,
    position,
    settled,
    started,
    step,
    wanted,
    written,
)
from tests.store.files import quick_store
from tests.unit.source_files import SRC

OLD, NEW = b"o" * 32, b"n" * 32


def aes(**keys: bytes) -> AesGcm:
    """A codec whose last key is current."""
    return AesGcm(keys, list(keys)[-1])


SEALED = aes(old=OLD)


class TestSqliteEncrypted(SharedStoreSuite):
    @pytest.fixture
    def opening(self, tmp_path: Path) -> Iterator[Opening]:
        with contextlib.ExitStack() as stores:
            yield lambda member: stores.enter_context(contextlib.closing(quick_store(tmp_path / "holdfast.db", member, SEALED)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@contextlib.contextmanager
def opened(path: Path, codec: PayloadCodec | None, member: str = "here", *, join: bool = True) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(str(path), member, codec)) as store:
        if join:
            store.join(member, LEASE)
        yield store
        if join:
            store.leave(member)


def edited(path: Path, statement: str, *parameters: object) -> list[Any]:
    """What a user does to the file without the store."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, parameters).fetchall()


# --- one codec per store -----------------------------------------------------------------------------------------------------


class Other:
    """A codec of another name."""

    name = "other"

    def encode(self, text: str, about: str) -> str:
        return text

    def decode(self, text: str, about: str) -> str:
        return text

    def fingerprint(self, text: str, like: str | None = None) -> str:
        return text


@pytest.mark.parametrize(
    "made, wrong, told",
    [
        (aes(old=OLD), None, "was made with the payload codec 'aes-gcm'"),
        (aes(old=OLD), Other(), "was made with the payload codec 'aes-gcm', not with 'other'"),
        (None, aes(old=OLD), "was made without a payload codec"),
        (aes(old=OLD), aes(new=NEW), "key 'old'; the codec has the keys new"),
        (aes(old=OLD), aes(old=NEW), "another key of that id"),
    ],
)
def test_a_store_is_opened_with_the_codec_that_made_it(
    path: Path, made: PayloadCodec | None, wrong: PayloadCodec | None, told: str
) -> None:
    with opened(path, made) as store:
        started(store, "a")
    with pytest.raises(CodecMismatch) as refused, opened(path, wrong):
        pass
    assert refused.value.code == "codec_mismatch"
    assert told in str(refused.value)
    assert str(path) in str(refused.value)
    with opened(path, made) as store:
        assert store.find_named("order", "a") is not None


def test_a_key_may_go_once_a_runner_has_used_the_next(path: Path) -> None:
    with opened(path, aes(old=OLD)):
        pass
    with opened(path, aes(old=OLD, new=NEW)) as store:
        started(store, "a")
    with opened(path, aes(new=NEW)) as store:
        found = store.find_named("order", "a")
        assert found is not None
        assert store.input(found.id) == "{}"


def test_looking_leaves_the_check_as_it_was(path: Path) -> None:
    with opened(path, aes(old=OLD)):
        pass
    with opened(path, aes(old=OLD, new=NEW), join=False):
        pass
    with opened(path, aes(old=OLD)):
        pass  # the one who only looked has not locked out those who do not know the new key yet


# --- identity ----------------------------------------------------------------------------------------------------------------


def test_the_identity_of_an_input_is_keyed_and_survives_a_change_of_keys(path: Path) -> None:
    with opened(path, aes(old=OLD)) as store:
        first = started(store, "a")
        assert wanted("a").header.input_hash != first.input_hash, "a plain hash could be guessed"
    with opened(path, aes(old=OLD, new=NEW)) as store:
        (same, other) = answers(store, wanted("a"), wanted("a", '{"other": 1}'))
        assert isinstance(same, Started)
        assert (same.created, same.header.id) == (False, first.id)
        assert isinstance(other, ExecutionAlreadyStarted)


# --- what cannot be read -----------------------------------------------------------------------------------------------------


def damaged(path: Path, execution: str, number: int, text: str = "old:QUJD") -> None:
    changed = edited(
        path,
        "UPDATE events SET payload = ? WHERE number = ? AND execution = (SELECT key FROM executions WHERE id = ?) RETURNING 1",
        text,
        number,
        execution,
    )
    assert changed == [(1,)]


def failing(operation_id: str) -> Update:
    return step(operation_id, Action.RETRY, error=Failure("boom"), delay_seconds=5)


def test_swapped_texts_are_noticed_wherever_they_are_read(path: Path) -> None:
    with opened(path, aes(old=OLD)) as store:
        header = live(store, "a", step("one", Action.SUCCEED, payload='"1"'), step("two", Action.SUCCEED, payload='"2"'))
        one, two = (op.payload_event for op in store.operations(header.id))
        assert one is not None
        assert two is not None
    texts = dict(edited(path, "SELECT number, payload FROM events WHERE number IN (?, ?)", one, two))
    damaged(path, header.id, one, texts[two])
    damaged(path, header.id, two, texts[one])
    with opened(path, aes(old=OLD)) as store:
        for read in (lambda: store.operations(header.id), lambda: store.history(header.id)):
            with pytest.raises(CodecFailed) as refused:
                read()
            assert f"event {one} of execution {header.id}" in str(refused.value)
            assert texts[two] not in str(refused.value)


def test_a_text_of_another_execution_is_noticed(path: Path) -> None:
    with opened(path, aes(old=OLD)) as store:
        one, two = started(store, "a"), started(store, "b")
    ((text,),) = edited(path, "SELECT payload FROM events WHERE execution = (SELECT key FROM executions WHERE id = ?)", two.id)
    damaged(path, one.id, 1, text)
    with opened(path, aes(old=OLD)) as store:
        assert store.input(two.id) == "{}"
        with pytest.raises(CodecFailed, match=f"event 1 of execution {one.id}"):
            store.input(one.id)


def test_an_unreadable_timer_is_quarantined_and_the_others_fire(path: Path) -> None:
    with opened(path, aes(old=OLD)) as store:
        bad, good = (
            written(store, settled(live(store, name, failing("flaky")), Outcome(OutcomeStatus.PENDING)), at(1)) for name in ("bad", "good")
        )
        assert (bad.state, good.state) == (State.SUSPENDED, State.SUSPENDED)
        (operation,) = store.operations(bad.id)
        assert operation.payload_event is not None
        ((text,),) = edited(
            path,
            "SELECT payload FROM events WHERE number = ? AND execution = (SELECT key FROM executions WHERE id = ?)",
            operation.payload_event,
            bad.id,
        )
        damaged(path, bad.id, operation.payload_event)
        assert set(store.due(at(6), 10)) == {bad.id, good.id}
        answers(store, Fire(bad.id), Fire(good.id), now=at(6))
        assert (now_at(store, bad).state, now_at(store, good).state) == (State.QUARANTINED, State.READY)
        assert store.due(at(6), 10) == [], "it does not come back before its deadline"

        damaged(path, bad.id, operation.payload_event, text)
        written(store, Release(bad.id), at(7))
        again = written(store, claim(now_at(store, bad), "here"), at(7))
        assert (again.state, again.deadline) == (State.RUNNING, bad.deadline)
        assert again.due_at == bad.deadline, "its timers are known again"


def test_a_claim_of_what_cannot_be_read_is_quarantined(path: Path) -> None:
    with opened(path, aes(old=OLD)) as store:
        header = live(store, "a", failing("flaky"), runner="dead")
        (operation,) = store.operations(header.id)
        assert operation.payload_event is not None
        damaged(path, header.id, operation.payload_event)
        taken = written(store, claim(header, "here", "dead"), at(6))
        assert (taken.state, taken.epoch, taken.due_at) == (State.QUARANTINED, header.epoch + 1, header.deadline)
        with pytest.raises(CodecFailed):
            store.history(header.id)


@pytest.mark.parametrize("end", ["settle", "fire"])
def test_a_live_invocation_whose_timer_cannot_be_read_ends_in_quarantine(path: Path, end: str) -> None:
    with opened(path, aes(old=OLD)) as store:
        header = live(store, "a", failing("flaky"))
        (operation,) = store.operations(header.id)
        assert operation.payload_event is not None
        damaged(path, header.id, operation.payload_event)
        write = settled(header, Outcome(OutcomeStatus.PENDING)) if end == "settle" else Fire(header.id)
        after_it = written(store, write, at(6))
        assert (after_it.state, after_it.runner, after_it.epoch) == (State.QUARANTINED, None, header.epoch + 1)
        told = edited(path, "SELECT type FROM events ORDER BY number")
        assert told[-1] == ("InvocationCompleted",)
        assert told.count(("InvocationCompleted",)) == 1


def test_nine_invocations_that_could_not_read_end_in_quarantine_not_in_failure(path: Path) -> None:
    unread = Outcome(OutcomeStatus.CRASHED, error=Failure("…", "holdfast.model.errors.CodecFailed"))
    with opened(path, aes(old=OLD)) as store:
        header, now = live(store, "a"), 0
        for _ in range(8):
            header = written(store, settled(header, unread), at(now))
            now += 100
            header = written(store, claim(header, "here"), at(now))
        header = written(store, settled(header, unread), at(now))
        assert (header.state, header.status, header.failures) == (State.QUARANTINED, "RUNNING", 0)


def test_a_codec_that_cannot_encode_spoils_its_own_entry_alone(path: Path) -> None:
    class Picky(Other):
        def encode(self, text: str, about: str) -> str:
            if "bad" in text:
                raise ValueError(f"cannot hide {text}")
            return text

    with opened(path, Picky()) as store:
        one, two = live(store, "a"), live(store, "b")
        bad, good, start = answers(
            store,
            checkpoint(one, step("s", Action.SUCCEED, payload='"bad"')),
            checkpoint(two, step("s", Action.SUCCEED, payload='"good"')),
            wanted("c", '"bad"'),
        )
        for refused in (bad, start):
            assert isinstance(refused, CodecFailed)
            assert "ValueError" in str(refused)
            assert "bad" not in str(refused), "the codec's own words may hold the content"
            assert refused.__cause__ is None
            assert refused.__context__ is None
        assert isinstance(good, Checkpointed)
        assert store.find_named("order", "c") is None
        assert [op.result for op in store.operations(two.id)] == ['"good"']
        assert store.operations(one.id) == []
        after(store, one, step("s", Action.SUCCEED, payload='"fine"'))


def test_a_codec_that_gives_no_text_is_told(path: Path) -> None:
    class Bytes(Other):
        def encode(self, text: str, about: str) -> str:
            return text.encode() if about != "check" else text  # type: ignore[return-value]

    with opened(path, Bytes()) as store:
        (refused,) = answers(store, wanted("a"))
        assert isinstance(refused, CodecFailed)
        assert "it gave bytes, not str" in str(refused)


def test_many_returns_reach_a_parent_that_cannot_be_read_as_a_whole(path: Path) -> None:
    """Its keys may come back; an answer that was dropped never would."""
    children = [Update(id=f"c{n}", type=Type.CHAINED_INVOKE, action=Action.START, function_name="other") for n in range(4)]
    with opened(path, aes(old=OLD)) as store:
        header = live(store, "a", step("s", Action.SUCCEED, payload='"1"'), runner="there")
        births = {update.id: birth(header.id, update.id) for update in children}
        header = written(store, Checkpoint(position(header), tuple(children), None, births))
        (first,) = [op for op in store.operations(header.id) if op.id == "s"]
        assert first.payload_event is not None
        damaged(path, header.id, first.payload_event)
        back = answers(store, *(Return(header.id, update.id, Status.SUCCEEDED, '"done"') for update in children))
        assert not [answer for answer in back if isinstance(answer, HoldfastError)]
    ((closed,),) = edited(path, "SELECT count(*) FROM operations WHERE type = 'CHAINED_INVOKE' AND status = 'SUCCEEDED'")
    assert closed == 4


def test_what_cannot_be_written_to_another_execution_is_not_written_to_the_first(path: Path) -> None:
    """Else a parent would wait for a child that never began, or never hear of one that ended."""

    class Picky(Other):
        refuses = ""

        def encode(self, text: str, about: str) -> str:
            if self.refuses and text == self.refuses and "/1" in about:
                raise ValueError("away")
            return text

    invoke = Update(id="c", type=Type.CHAINED_INVOKE, action=Action.START, function_name="order", payload='"asked"')
    picky = Picky()
    with opened(path, picky) as store:
        parent, other = live(store, "a"), live(store, "b")
        child = Birth(wanted("child", '"asked"', parent=parent.id, parent_operation="c").header, '"asked"')
        picky.refuses = '"asked"'
        refused, went_on = answers(store, Checkpoint(position(parent), (invoke,), None, {"c": child}), checkpoint(other, step("s")))
        assert isinstance(refused, CodecFailed)
        assert isinstance(went_on, Checkpointed)
        assert store.find(child.header.id) is None
        assert list(store.operations(parent.id)) == []
        picky.refuses = ""
        written(store, Checkpoint(position(parent), (invoke,), None, {"c": child}))
        assert store.input(child.header.id) == '"asked"'


def birth(parent: str, operation: str) -> Birth:
    return Birth(wanted(f"child-{operation}", parent=parent, parent_operation=operation).header, "{}")


# --- nothing is forgotten ----------------------------------------------------------------------------------------------------


def test_every_query_that_reads_a_payload_is_known_to_go_through_the_codec() -> None:
    """A new query that selects a payload must read it with `rows.payload_from`; then it may be named here."""
    queries = {name: body.replace("length(payload)", "") for name, body in load_queries().items()}
    selecting = {name for name, body in queries.items() if re.search(r"\bpayload\b", body) and not body.startswith("INSERT")}
    assert selecting == {
        "payload",
        "operations",
        "newer_operations",
        "operations_at",
        "inputs",
        "operation",
        "due_operations",
        "history",
        "all_events",
    }


# --- graphs ------------------------------------------------------------------------------------------------------------------


def running(name: str, graph: GraphText) -> Start:
    return msgspec.structs.replace(wanted(name), graph=graph)


def test_a_graph_is_stored_through_the_codec_and_a_text_of_another_graph_is_noticed(path: Path) -> None:
    one, two = graph_text('{"nodes":["secret-node"]}'), graph_text('{"nodes":[]}')
    with opened(path, aes(old=OLD)) as store:
        answers(store, running("a", one), running("b", two))
        assert store.graph(one.id) == one.text
    stored = dict(edited(path, "SELECT id, text FROM graphs"))
    assert [text.partition(":")[0] for text in stored.values()] == ["old", "old"]
    assert b"secret-node" not in b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    edited(path, "UPDATE graphs SET text = ? WHERE id = ?", stored[two.id], one.id)
    with opened(path, aes(old=OLD)) as store:
        with pytest.raises(CodecFailed, match=f"decode graph {one.id}"):
            store.graph(one.id)
        assert store.graph(two.id) == two.text


def test_without_a_codec_a_text_of_another_graph_is_noticed_too(path: Path) -> None:
    graph = graph_text('{"nodes":[]}')
    with opened(path, None) as store:
        answers(store, running("a", graph))
        edited(path, "UPDATE graphs SET text = '{}'")
        with pytest.raises(RowDamaged, match=graph.id):
            store.graph(graph.id)


def test_a_graph_that_is_started_again_is_under_the_current_key_so_that_the_old_one_may_go(path: Path) -> None:
    graph = graph_text('{"nodes":[]}')
    with opened(path, aes(old=OLD)) as store:
        answers(store, running("a", graph))
    with opened(path, aes(old=OLD, new=NEW)) as store:
        for name in ("b", "c"):
            answers(store, running(name, graph))
            ((text,),) = edited(path, "SELECT text FROM graphs")
            assert text.startswith("new:")
    with opened(path, aes(new=NEW)) as store:
        assert store.graph(graph.id) == graph.text


def test_a_graph_that_the_codec_cannot_encode_spoils_no_other_start(path: Path) -> None:
    class Choosy(AesGcm):
        def encode(self, text: str, about: str) -> str:
            if about.startswith("graph/"):
                raise RuntimeError("no key today")
            return super().encode(text, about)

    with opened(path, Choosy({"old": OLD}, "old")) as store:
        refused, good = answers(store, running("a", graph_text("{}")), wanted("b"))
        assert isinstance(refused, CodecFailed)
        assert isinstance(good, Started)
        assert store.find_named("order", "a") is None


# --- schedules ---------------------------------------------------------------------------------------------------------------


def test_a_schedule_is_stored_through_the_codec_and_is_under_the_current_key_when_it_has_moved(path: Path) -> None:
    state = new_schedule("s", Definition(function="order", timing=Timing(every=60)), '"a secret"', origin=Origin.CLI, now=at(0))
    with opened(path, aes(old=OLD)) as store:
        store.put_schedule(state)
        assert store.schedule("s") == state
    assert "secret" not in str(edited(path, "SELECT * FROM schedules"))
    with opened(path, aes(old=OLD, new=NEW)) as store:
        store.move_schedule(changed(state, cursor=at(60)))
    with opened(path, aes(new=NEW)) as store:
        found = store.schedule("s")
        assert found is not None
        assert found.input == '"a secret"'


def test_a_schedule_that_the_codec_cannot_encode_spoils_no_other_start(path: Path) -> None:
    class Choosy(AesGcm):
        def encode(self, text: str, about: str) -> str:
            if about.startswith("schedule/") and '"cursor":' in text and str(at(60)) in text:
                raise RuntimeError("no key today")
            return super().encode(text, about)

    state = new_schedule("s", Definition(function="order", timing=Timing(every=60)), "{}", origin=Origin.CLI, now=at(0))
    with opened(path, Choosy({"old": OLD}, "old")) as store:
        store.put_schedule(msgspec.structs.replace(state, next_at=None))
        moved = msgspec.structs.replace(wanted("a"), occurrence=Occurrence("s", at(60)), moved=changed(state, cursor=at(60)))
        refused, good = answers(store, moved, wanted("b"))
        assert isinstance(refused, CodecFailed)
        assert isinstance(good, Started)
        assert store.find_named("order", "a") is None


def test_payloads_have_one_home() -> None:
    """A column that could hold a payload beside events.payload, graphs.text and those of schedules would need the codec, too."""
    schema = (SRC / "store/sqlite/schema.sql").read_text()
    homes = [table for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", schema, re.S) if re.search(r"^\s+payload ", body, re.M)]
    assert homes == ["events"]
    blobs = re.findall(r"^\s+(\w+)\s+BLOB", schema, re.M)
    assert blobs == ["value"], "of meta: the seal's key"


def test_only_one_function_makes_and_one_reads_the_rows_of_payloads() -> None:
    uses = {"encoded(codec": [], "decoded(codec": []}  # type: dict[str, list[str]]
    for file in SRC.rglob("*.py"):
        for call, places in uses.items():
            places += [file.name] * file.read_text().replace("def encoded(codec", "").replace("def decoded(codec", "").count(call)
    assert uses == {"encoded(codec": ["rows.py"], "decoded(codec": ["rows.py"]}
