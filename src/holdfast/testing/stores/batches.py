"""Batches: one transaction per batch, one answer per entry. Entries are decided in order, and a refused entry changes nothing."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from holdfast.model.errors import CallbackClosed, ExecutionAlreadyStarted, ExecutionNotFound, HoldfastError, InvalidParameter, InvalidToken
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.history import EventType as E
from holdfast.model.operations import Action, Failure, Status, Type, Update
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpointed, Started
from holdfast.store.seam import Filter, Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    T0,
    after,
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
    step,
    story,
    suspended,
    wanted,
)


class BatchSuite(OneHandle):
    """Tests: isolation inside a batch. They need one handle of the store."""

    def test_an_empty_batch_is_answered_emptily(self, store: Store) -> None:
        assert answers(store) == []

    def test_a_write_to_an_unknown_execution_is_refused(self, store: Store) -> None:
        (refused,) = answers(store, Stop(id_at(T0)))
        assert isinstance(refused, ExecutionNotFound)

    def test_one_refused_entry_spoils_no_other(self, store: Store) -> None:
        one, two, stale = (live(store, name) for name in ("one", "two", "stale"))
        after(store, stale, step("s"))
        batch = (
            checkpoint(one, step("s")),
            Stop(id_at(T0)),
            checkpoint(stale, step("t")),
            checkpoint(two, Update(id="w", type=Type.WAIT, action=Action.CANCEL)),
            wanted("one", "other input"),
            checkpoint(two, step("s")),
        )
        good, unknown, used, bad, conflict, also_good = answers(store, *batch)
        assert isinstance(good, Checkpointed)
        assert isinstance(also_good, Checkpointed)
        refusals = (ExecutionNotFound, InvalidToken, InvalidParameter, ExecutionAlreadyStarted)
        assert [type(answer) for answer in (unknown, used, bad, conflict)] == list(refusals)
        assert [[op.id for op in store.operations(x.id)] for x in (one, two, stale)] == [["s"], ["s"], ["s"]]

    @pytest.mark.parametrize("text", ["\ud800", '"\udcff"'])
    def test_a_text_that_cannot_be_stored_spoils_no_other_entry(self, store: Store, text: str) -> None:
        bad, good, ending, waiting = live(store, "bad"), live(store, "good"), live(store, "ending"), live(store, "waiting", callback("c"))
        batch = (
            checkpoint(bad, step("s", Action.SUCCEED, payload=text)),
            checkpoint(bad, step("s", name=text)),
            Answering(waiting.id, "c", text),
            Stop(waiting.id, Failure(text)),
            settled(ending, Outcome(OutcomeStatus.FAILED, None, Failure(text, text, text, (text,)))),
            checkpoint(good, step("s")),
        )
        refused, also_refused, unanswered, *accepted = answers(store, *batch)
        assert [type(answer) for answer in (refused, also_refused, unanswered)] == [InvalidParameter] * 3
        assert not [answer for answer in accepted if isinstance(answer, HoldfastError)]
        assert [now_at(store, x).status for x in (waiting, ending)] == [ExecutionStatus.STOPPED, ExecutionStatus.FAILED]

    def test_entries_of_one_execution_are_decided_in_order(self, store: Store) -> None:
        header = live(store, "a")
        next_one = msgspec.structs.replace(header, sequence=1, revision=header.revision + 1)
        first, second = answers(store, checkpoint(header, step("s")), checkpoint(next_one, step("s", Action.SUCCEED)))
        assert isinstance(first, Checkpointed)
        assert isinstance(second, Checkpointed)
        assert [op.status for op in first.operations] == [Status.STARTED]
        assert [op.status for op in second.operations] == [Status.SUCCEEDED]

    def test_a_later_entry_of_a_batch_sees_what_an_earlier_one_did(self, store: Store) -> None:
        header = suspended(store, "a", callback("c"))
        answered, late = answers(store, Answering(header.id, "c", "1"), Answering(header.id, "c", "2"), now=at(2))
        assert isinstance(answered, Execution)
        assert isinstance(late, CallbackClosed)

    def test_after_a_batch_memory_is_what_was_written(self, store: Store) -> None:
        """An answer and a claim in one batch: the cached state of the new invocation includes the answer."""
        header = suspended(store, "a", callback("c"))
        answers(store, Answering(header.id, "c", "1"), claim(header, "here"), now=at(2))
        (late,) = answers(store, Answering(header.id, "c", "2"), now=at(3))
        assert isinstance(late, CallbackClosed)
        assert story(store, header).count(E.CALLBACK_SUCCEEDED) == 1

    def test_a_refused_entry_uses_up_no_event_number(self, store: Store) -> None:
        header = live(store, "a")
        bad = checkpoint(header, step("s"), Update(id="w", type=Type.WAIT, action=Action.CANCEL))
        answers(store, bad, checkpoint(header, step("s")), bad)
        assert story(store, header) == [E.EXECUTION_STARTED, E.STEP_STARTED]

    @pytest.mark.parametrize("count", [1, 5, 150, 700])
    def test_a_batch_may_be_large(self, store: Store, count: int) -> None:
        header = live(store, "a")
        after(store, header, *(step(f"s{n:03}") for n in range(count)))
        assert [op.id for op in store.operations(header.id)] == [f"s{n:03}" for n in range(count)]
        many = answers(store, *(wanted(f"many-{n}") for n in range(count)))
        assert len({answer.header.id for answer in many if isinstance(answer, Started)}) == count

    def test_verbs_may_be_called_from_any_thread(self, store: Store) -> None:
        def started_and_found(n: int) -> bool:
            header = started(store, f"n{n}", now=at(n))
            return store.find(header.id) == header and header.name in names(store.list(Filter(name=header.name)))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(started_and_found, range(40)))
        assert len(store.list(Filter())) == 40
