"""The store's suite: what every backend must do. Inherit, and provide the `opening` fixture; nothing here knows a backend.

`StoreSuite` needs one handle. `SharedStoreSuite` also opens the same store again, after closing it and beside it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import msgspec
import pytest

from holdfast.model import codec
from holdfast.model.errors import (
    CallbackClosed,
    ExecutionAlreadyStarted,
    ExecutionNotFound,
    HoldfastError,
    InvalidParameter,
    InvalidToken,
    LeaseLost,
)
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms
from holdfast.model.history import EventType as E
from holdfast.model.ids import Ids, Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Failure, Operation, Status, Type, Update
from holdfast.model.outside import Answering, Fire, Heartbeat, Stop
from holdfast.model.verbs import Answer, Checkpoint, Checkpointed, Claim, Settle, Start, Started, Write
from holdfast.store.seam import Filter, Store, Target

Opening = Callable[[str], Store]
"""Opens the store of this test for a member; whoever provides it closes what is still open."""

T0 = 1_767_225_600_000
SECOND = 1_000
LEASE = T0 + 10 * SECOND
ORDER = (Target("order", "$LATEST"),)
OOPS = Failure("boom", "Oops", "data", ("line 1", "line 2"))


def at(seconds: float) -> int:
    return T0 + int(seconds * SECOND)


def id_at(now: int) -> str:
    """An id of that time, whichever times were asked for before."""
    return Ids(Random())(now)


# --- what tests do with a store ----------------------------------------------------------------------------------------------


def wanted(name: str, text: str = "{}", /, **set_to: object) -> Start:
    """A start, not claimed."""
    asked: dict[str, object] = {
        "id": id_at(T0), "function": "order", "version": "$LATEST", "name": name, "input_hash": codec.payload_hash(text),
        "terms": Terms(3600), "started_at": T0, "deadline": 0,
    }  # fmt: skip
    return Start(Execution(**(asked | set_to)), text)  # type: ignore[arg-type]


def answers(store: Store, *batch: Write, now: int = T0) -> list[Answer | HoldfastError]:
    return list(store.commit(batch, now).answers)


def written(store: Store, write: Write, now: int = T0) -> Execution:
    """The header after a write that must be accepted."""
    (answer,) = answers(store, write, now=now)
    if isinstance(answer, HoldfastError):
        raise answer
    if isinstance(answer, Execution):
        return answer
    found = store.find(write.execution)
    assert found is not None
    return found


def started(store: Store, name: str, now: int = T0, **set_to: object) -> Execution:
    """A new execution that waits for a runner."""
    (answer,) = answers(store, wanted(name, "{}", **{"id": id_at(now), "started_at": now} | set_to), now=now)
    assert isinstance(answer, Started)
    return answer.header


def live(store: Store, name: str, *updates: Update, runner: str = "here") -> Execution:
    """A new execution whose first invocation is live and has written these."""
    asked = wanted(name)
    header = written(store, msgspec.structs.replace(asked, by=Claimant(runner, f"{runner}-1")))
    return after(store, header, *updates) if updates else header


def after(store: Store, header: Execution, *updates: Update, now: int = T0) -> Execution:
    return written(store, checkpoint(header, *updates), now)


def suspended(store: Store, name: str, *updates: Update, runner: str = "here") -> Execution:
    header = live(store, name, *updates, runner=runner)
    return written(store, settled(header, Outcome(OutcomeStatus.PENDING)), at(1))


def position(header: Execution) -> Position:
    return Position(header.id, header.epoch, header.sequence, header.revision)


def checkpoint(header: Execution, *updates: Update, client: str | None = None) -> Checkpoint:
    return Checkpoint(position(header), updates, client)


def settled(header: Execution, outcome: Outcome, seen: int | None = None) -> Settle:
    revision = header.revision if seen is None else seen
    return Settle(execution=header.id, epoch=header.epoch, invocation=header.invocation or "", seen=revision, outcome=outcome)


def claim(header: Execution, runner: str, *dead: str) -> Claim:
    return Claim(header.id, Claimant(runner, f"{runner}-{header.epoch + 1}"), frozenset(dead))


def now_at(store: Store, header: Execution) -> Execution:
    found = store.find(header.id)
    assert found is not None
    return found


def step(operation_id: str, action: Action = Action.START, **set_to: object) -> Update:
    return Update(id=operation_id, type=Type.STEP, action=action, **set_to)  # type: ignore[arg-type]


def wait(name: str, seconds: int = 10) -> Update:
    return Update(id=name, type=Type.WAIT, action=Action.START, wait_seconds=seconds)


def callback(name: str, timeout: int = 0, heartbeat: int = 0) -> Update:
    return Update(id=name, type=Type.CALLBACK, action=Action.START, timeout_seconds=timeout, heartbeat_seconds=heartbeat)


def execution_succeeds(result: str) -> Update:
    return Update(id="execution-result-1", type=Type.EXECUTION, action=Action.SUCCEED, payload=result)


def story(store: Store, header: Execution) -> list[E]:
    lines = store.history(header.id)
    assert [line.event.number for line in lines] == list(range(1, len(lines) + 1)), "numbered from 1 without gaps"
    times = [line.event.at for line in lines]
    assert times == sorted(times), "times never go back"
    return [line.event.type for line in lines]


def names(found: object) -> list[str]:
    return [execution.name for execution in found]  # type: ignore[attr-defined]


class StoreSuite:
    """One handle. A subclass provides `opening`."""

    @pytest.fixture
    def store(self, opening: Opening) -> Store:
        """The store of a process called `here`, which is also a runner."""
        store = opening("here")
        store.join("here", LEASE)
        return store

    # --- starting

    def test_a_started_execution_is_found_by_id_and_by_name(self, store: Store) -> None:
        (answer,) = answers(store, wanted("a", '{"x": 1}'))
        assert isinstance(answer, Started)
        assert answer.created
        assert store.find(answer.header.id) == store.find_named("order", "a") == answer.header
        assert (store.input(answer.header.id), list(store.operations(answer.header.id))) == ('{"x": 1}', [])
        assert story(store, answer.header) == [E.EXECUTION_STARTED]

    def test_what_was_never_started_is_not_found(self, store: Store) -> None:
        assert store.find(id_at(T0)) is None
        assert store.find_named("order", "nobody") is None
        assert store.input(id_at(T0)) is None

    def test_a_start_with_the_same_name_and_input_finds_the_first(self, store: Store) -> None:
        first = started(store, "a")
        assert answers(store, wanted("a")) == [Started(first, False)]

    def test_a_start_with_the_same_name_and_input_finds_also_a_closed_one(self, store: Store) -> None:
        closed = written(store, Stop(started(store, "a").id))
        assert answers(store, wanted("a")) == [Started(closed, False)]

    def test_a_start_with_the_same_name_and_another_input_is_a_conflict(self, store: Store) -> None:
        first = started(store, "a")
        (refused,) = answers(store, wanted("a", '{"other": 1}'))
        assert isinstance(refused, ExecutionAlreadyStarted)
        assert first.id in str(refused)

    def test_a_start_with_the_same_name_and_another_version_is_a_conflict(self, store: Store) -> None:
        started(store, "a")
        (refused,) = answers(store, wanted("a", version="2"))
        assert isinstance(refused, ExecutionAlreadyStarted)

    def test_names_are_compared_within_one_batch_too(self, store: Store) -> None:
        first, same, other_input, other_version = answers(store, wanted("a"), wanted("a"), wanted("a", "1"), wanted("a", version="2"))
        assert isinstance(first, Started)
        assert same == Started(first.header, False)
        assert isinstance(other_input, ExecutionAlreadyStarted)
        assert isinstance(other_version, ExecutionAlreadyStarted)
        assert names(store.list(Filter())) == ["a"]

    def test_a_name_belongs_to_its_function(self, store: Store) -> None:
        one, two = answers(store, wanted("a"), wanted("a", function="refund"))
        assert isinstance(one, Started)
        assert isinstance(two, Started)
        assert one.header.id != two.header.id

    def test_a_start_may_be_claimed_in_the_same_write(self, store: Store) -> None:
        header = live(store, "a")
        assert (header.state, header.runner, header.epoch) == (State.RUNNING, "here", 1)
        assert list(store.claimable(ORDER, (), T0, 10)) == []

    def test_a_start_may_be_followed_by_other_writes_of_the_same_batch(self, store: Store) -> None:
        asked = msgspec.structs.replace(wanted("a"), by=Claimant("here", "here-1"))
        first = Checkpoint(Position(asked.header.id, 1, 0, 1), (step("s"),))
        second = Checkpoint(Position(asked.header.id, 1, 1, 2), (step("s", Action.SUCCEED, payload="1"),))
        assert not [answer for answer in answers(store, asked, first, second) if isinstance(answer, HoldfastError)]
        assert [(op.id, op.status, op.result) for op in store.operations(asked.header.id)] == [("s", Status.SUCCEEDED, "1")]
        assert story(store, asked.header) == [E.EXECUTION_STARTED, E.STEP_STARTED, E.STEP_SUCCEEDED]

    # --- one batch, many answers

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
        """An answer and a claim in one batch: what is remembered for the new invocation includes the answer."""
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

    # --- what is kept

    def test_operations_are_read_back_as_they_were_answered(self, store: Store) -> None:
        header, kept = live(store, "a"), dict[str, Operation]()
        batches: list[list[Update]] = [
            [
                Update(id="ctx", type=Type.CONTEXT, action=Action.START, name="branch", sub_type="RunInChildContext"),
                step("s", name="charge", sub_type="Step", parent_id="ctx"),
                callback("c", 60, 5),
                wait("w"),
                step("poll", Action.RETRY, delay_seconds=5, payload='{"polls": 1}'),
                step("flaky", Action.RETRY, delay_seconds=5, error=OOPS),
            ],
            [
                step("s", Action.SUCCEED, payload="é\u0000\U0001f9ea" * 1000),
                step("failed", Action.FAIL, error=OOPS),
                step("empty", Action.FAIL),
                step("nothing", Action.SUCCEED),
                Update(id="w", type=Type.WAIT, action=Action.CANCEL),
                Update(id="ctx", type=Type.CONTEXT, action=Action.SUCCEED, payload="", replay_children=True),
            ],
        ]
        for updates in batches:
            (answer,) = answers(store, checkpoint(now_at(store, header), *updates))
            assert isinstance(answer, Checkpointed)
            kept |= {op.id: op for op in answer.operations}
            assert {op.id: op for op in store.operations(header.id)} == kept

    def test_operations_come_in_the_order_they_began(self, store: Store) -> None:
        header = after(store, live(store, "a", step("z"), step("a")), step("m"), step("a", Action.SUCCEED))
        assert [op.id for op in store.operations(header.id)] == ["z", "a", "m"]

    def test_only_operations_changed_after_a_revision_may_be_asked_for(self, store: Store) -> None:
        header = live(store, "a", step("z"), step("a"))
        after(store, header, step("m"), step("a", Action.SUCCEED))
        assert [op.id for op in store.operations(header.id, header.revision)] == ["a", "m"]
        assert list(store.operations(header.id, header.revision + 1)) == []

    def test_a_header_is_read_back_as_it_was_answered(self, store: Store) -> None:
        header = live(store, "a", wait("w"))
        writes: tuple[Write, ...] = (
            settled(header, Outcome(OutcomeStatus.CRASHED, None, OOPS)),
            claim(header, "here"),
            Stop(header.id, OOPS),
        )
        for later, write in enumerate(writes, 1):
            assert written(store, write, at(5 * later)) == store.find(header.id)

    @pytest.mark.parametrize("result", ['{"x": 1}', "", None])
    def test_a_result_is_kept(self, store: Store, result: str | None) -> None:
        closed = written(store, settled(live(store, "a"), Outcome(OutcomeStatus.SUCCEEDED, result)))
        assert (closed.status, store.result(closed)) == (ExecutionStatus.SUCCEEDED, result)

    def test_an_error_is_kept(self, store: Store) -> None:
        closed = written(store, settled(live(store, "a"), Outcome(OutcomeStatus.FAILED, None, OOPS)))
        text = store.result(closed)
        assert text is not None
        assert codec.failure_from(text) == OOPS

    def test_an_open_execution_has_no_result(self, store: Store) -> None:
        assert store.result(live(store, "a")) is None

    # --- who may write

    def test_a_taken_over_writer_is_refused_and_spoils_nobody(self, store: Store) -> None:
        stale, fresh = live(store, "stale", runner="gone"), live(store, "fresh")
        taken = written(store, claim(stale, "here", "gone"))
        refused, accepted, successor = answers(
            store, checkpoint(stale, step("s")), checkpoint(fresh, step("s")), checkpoint(taken, step("mine"))
        )
        assert isinstance(refused, LeaseLost)
        assert isinstance(accepted, Checkpointed)
        assert isinstance(successor, Checkpointed)
        assert [op.id for op in store.operations(stale.id)] == ["mine"]

    def test_a_takeover_tells_of_the_dead_invocation_with_the_claim(self, store: Store) -> None:
        header = live(store, "a", runner="gone")
        taken = written(store, claim(header, "here", "gone"))
        (line,) = store.history(header.id, after=1)
        assert (taken.epoch, taken.deaths, line.event.type) == (2, 1, E.INVOCATION_COMPLETED)
        assert "Runtime.ExitError" in (line.event.payload or "")

    def test_two_claims_of_one_batch_have_one_winner(self, store: Store) -> None:
        header = started(store, "a")
        first, second = answers(store, claim(header, "here"), claim(header, "there"))
        assert isinstance(first, Execution)
        assert isinstance(second, LeaseLost)
        assert now_at(store, header).runner == "here"

    def test_a_used_token_is_refused(self, store: Store) -> None:
        header = live(store, "a")
        first, again = answers(store, checkpoint(header, step("s")), checkpoint(header, step("t")))
        assert isinstance(first, Checkpointed)
        assert isinstance(again, InvalidToken)

    def test_a_write_on_a_moved_revision_is_applied_and_told_what_moved(self, store: Store) -> None:
        seen = live(store, "a", callback("c"))
        written(store, Answering(seen.id, "c", "1"))
        (answer,) = answers(store, checkpoint(seen, step("s")))
        assert isinstance(answer, Checkpointed)
        assert [(op.id, op.status) for op in answer.operations] == [("c", Status.SUCCEEDED), ("s", Status.STARTED)]

    def test_a_repeated_request_is_recognised_within_a_batch_and_after_it(self, store: Store) -> None:
        asked = checkpoint(live(store, "a"), step("s"), client="c-1")
        first, second = answers(store, asked, asked)
        (third,) = answers(store, asked)
        assert first == second == third
        assert [line.event.type for line in store.history(asked.execution)] == [E.EXECUTION_STARTED, E.STEP_STARTED]

    # --- suspending and waking

    def test_no_wake_up_is_lost_between_the_last_look_and_the_suspension(self, store: Store) -> None:
        header = live(store, "a", callback("c"))
        written(store, Answering(header.id, "c", "1"))
        left = written(store, settled(header, Outcome(OutcomeStatus.PENDING), seen=header.revision))
        assert left.state is State.READY
        assert list(store.claimable(ORDER, (), T0, 10)) == [header.id]

    def test_no_wake_up_is_lost_within_one_batch(self, store: Store) -> None:
        header = live(store, "a", callback("c"))
        answers(store, Answering(header.id, "c", "1"), settled(header, Outcome(OutcomeStatus.PENDING)))
        assert now_at(store, header).state is State.READY
        other = live(store, "b", callback("c"))
        answers(store, settled(other, Outcome(OutcomeStatus.PENDING)), Answering(other.id, "c", "1"))
        assert now_at(store, other).state is State.READY

    def test_a_suspended_execution_is_nobodys(self, store: Store) -> None:
        header = suspended(store, "a", wait("w"))
        assert (header.runner, list(store.claimable(ORDER, (), at(2), 10)), set(store.held("here"))) == (None, [], set())

    def test_the_next_invocation_sees_all_operations(self, store: Store) -> None:
        header = suspended(store, "a", callback("c"), step("s", Action.SUCCEED, payload="1"))
        written(store, Answering(header.id, "c", "2"), at(2))
        written(store, claim(header, "here"), at(3))
        assert [(op.id, op.status, op.result) for op in store.operations(header.id)] == [
            ("c", Status.SUCCEEDED, "2"),
            ("s", Status.SUCCEEDED, "1"),
        ]

    # --- timers

    def test_an_execution_is_due_when_its_timer_is(self, store: Store) -> None:
        header = suspended(store, "a", wait("w", 10))
        assert list(store.due(at(9.999), 10)) == []
        assert list(store.due(at(10), 10)) == [header.id]
        assert store.next_due(ORDER) == at(10)

    def test_firing_ends_the_wait_and_moves_the_next_due_time(self, store: Store) -> None:
        header = suspended(store, "a", wait("w", 10), wait("later", 30))
        fired = written(store, Fire(header.id), at(10))
        assert (fired.state, fired.due_at) == (State.READY, at(30))
        assert [op.status for op in store.operations(header.id)] == [Status.SUCCEEDED, Status.STARTED]
        assert story(store, header)[-1] is E.WAIT_SUCCEEDED
        assert list(store.due(at(10), 10)) == []

    def test_a_lower_bound_that_came_too_early_is_corrected(self, store: Store) -> None:
        header = suspended(store, "a", callback("c", timeout=5), wait("w", 30))
        written(store, Answering(header.id, "c", "1"), at(2))
        assert list(store.due(at(5), 10)) == [header.id]
        assert written(store, Fire(header.id), at(5)).due_at == at(30)
        assert list(store.due(at(5), 10)) == []

    def test_a_timer_set_and_fired_in_one_batch_fires_once(self, store: Store) -> None:
        header = live(store, "a")
        answers(store, checkpoint(header, wait("w", 10)))
        answers(store, Fire(header.id), Fire(header.id), now=at(10))
        assert story(store, header).count(E.WAIT_SUCCEEDED) == 1

    def test_a_timer_set_earlier_in_the_batch_is_seen_by_a_later_entry(self, store: Store) -> None:
        header = suspended(store, "a", callback("c", timeout=60, heartbeat=5))
        answers(store, Heartbeat(header.id, "c"), Fire(header.id), now=at(4))
        assert [op.due_at for op in store.operations(header.id)] == [at(9)]
        assert written(store, Fire(header.id), at(8)).state is State.SUSPENDED
        assert written(store, Fire(header.id), at(9)).state is State.READY

    def test_the_soonest_of_many_is_due_first(self, store: Store) -> None:
        late, soon, middle = (suspended(store, f"w{s}", wait("w", s)) for s in (30, 10, 20))
        assert list(store.due(at(60), 10)) == [soon.id, middle.id, late.id]
        assert list(store.due(at(60), 2)) == [soon.id, middle.id]

    def test_the_deadline_is_a_timer_too(self, store: Store) -> None:
        header = started(store, "a")
        assert list(store.due(at(3600), 10)) == [header.id]
        assert written(store, Fire(header.id), at(3600)).status is ExecutionStatus.TIMED_OUT
        assert (list(store.due(at(9999), 10)), store.next_due(ORDER)) == ([], None)

    def test_a_delayed_retry_of_a_hosted_function_is_a_time_to_wake_up(self, store: Store) -> None:
        header = live(store, "a")
        left = written(store, settled(header, Outcome(OutcomeStatus.CRASHED, None, OOPS)))
        assert store.next_due(ORDER) == left.ready_at == at(1)
        assert store.next_due((Target("other", "$LATEST"),)) == header.deadline
        assert store.next_due((Target("order", "2"),)) == header.deadline

    # --- claiming

    def test_ready_executions_are_offered_first_come_first_served(self, store: Store) -> None:
        for n in (3, 1, 2):
            started(store, f"n{n}", now=at(n))
        found = [now.name for now in map(store.find, store.claimable(ORDER, (), at(9), 10)) if now is not None]
        assert found == ["n1", "n2", "n3"]
        assert len(store.claimable(ORDER, (), at(9), 2)) == 2

    def test_only_functions_and_versions_that_a_runner_has_are_offered(self, store: Store) -> None:
        mine = started(store, "mine")
        started(store, "other version", version="2")
        started(store, "other function", function="refund")
        assert list(store.claimable(ORDER, (), T0, 10)) == [mine.id]
        assert len(store.claimable((*ORDER, Target("refund", "$LATEST")), (), T0, 10)) == 2
        assert list(store.claimable((), (), T0, 10)) == []

    def test_a_retry_is_not_offered_before_its_time(self, store: Store) -> None:
        header = live(store, "a")
        written(store, settled(header, Outcome(OutcomeStatus.CRASHED, None, OOPS)))
        assert list(store.claimable(ORDER, (), at(0.999), 10)) == []
        assert list(store.claimable(ORDER, (), at(1), 10)) == [header.id]

    def test_what_a_dead_runner_left_is_offered(self, store: Store) -> None:
        header = live(store, "a", runner="gone")
        closing = live(store, "b", runner="gone")
        after(store, closing, execution_succeeds("1"))
        assert list(store.claimable(ORDER, (), T0, 10)) == []
        assert set(store.claimable(ORDER, ("gone",), T0, 10)) == {header.id, closing.id}

    # --- history

    def test_events_are_numbered_without_gaps_and_told_with_their_operation(self, store: Store) -> None:
        header = suspended(store, "a", step("s", name="charge"), callback("c"))
        written(store, Answering(header.id, "c", "1"), at(2))
        written(store, Stop(header.id), at(3))
        assert story(store, header) == [
            E.EXECUTION_STARTED, E.STEP_STARTED, E.CALLBACK_STARTED, E.INVOCATION_COMPLETED, E.CALLBACK_SUCCEEDED, E.EXECUTION_STOPPED,
        ]  # fmt: skip
        told = [line.operation.id if line.operation else None for line in store.history(header.id)]
        assert told == [None, "s", "c", None, "c", None]
        assert [line.event.operation_id for line in store.history(header.id)] == told

    def test_history_is_read_in_pages(self, store: Store) -> None:
        header = live(store, "a", *(step(f"s{n}") for n in range(5)))
        pages = [[line.event.number for line in store.history(header.id, after=n, limit=4)] for n in (0, 4, 6)]
        assert pages == [[1, 2, 3, 4], [5, 6], []]

    def test_the_terminal_event_of_a_closing_execution_is_shown_after_its_invocation(self, store: Store) -> None:
        header = live(store, "a")
        closing = after(store, header, execution_succeeds('"done"'))
        assert (closing.state, closing.status) == (State.CLOSING, ExecutionStatus.SUCCEEDED)
        assert story(store, header) == [E.EXECUTION_STARTED]
        assert store.result(closing) == '"done"'
        closed = written(store, settled(header, Outcome(OutcomeStatus.SUCCEEDED, "")))
        assert story(store, header) == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED, E.EXECUTION_SUCCEEDED]
        assert store.result(closed) == '"done"'

    def test_a_closing_execution_whose_runner_died_is_finished_by_another(self, store: Store) -> None:
        header = live(store, "a", runner="gone")
        after(store, header, execution_succeeds('"done"'))
        assert written(store, claim(header, "here", "gone")).state is State.CLOSED
        assert story(store, header) == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED, E.EXECUTION_SUCCEEDED]

    # --- listing

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
            started(store, f"new{len(seen)}", now=at(-9 if oldest_first else 99))  # lands on the side already seen
        wanted_names = [f"n{n}" for n in range(5)]
        assert seen == (wanted_names if oldest_first else wanted_names[::-1])

    # --- runners

    def test_a_runner_within_its_lease_is_alive(self, store: Store) -> None:
        live(store, "a")
        assert store.dead(LEASE - 1) == frozenset()

    def test_a_runner_silent_past_its_lease_is_dead(self, store: Store) -> None:
        live(store, "a")
        assert store.dead(LEASE) == {"here"}

    def test_a_renewed_lease_keeps_a_runner_alive(self, store: Store) -> None:
        live(store, "a")
        assert store.renew("here", LEASE + 10 * SECOND)
        assert store.dead(LEASE) == frozenset()

    def test_a_runner_that_was_declared_dead_cannot_renew_but_join_again(self, store: Store) -> None:
        live(store, "a")
        store.dead(LEASE)
        assert not store.renew("here", LEASE + 10 * SECOND)
        store.join("here", LEASE + 10 * SECOND)
        assert store.dead(LEASE) == frozenset()

    def test_a_runner_that_left_work_behind_is_dead(self, store: Store) -> None:
        live(store, "a")
        store.leave("here")
        assert store.dead(T0) == {"here"}
        assert not store.renew("here", LEASE)

    def test_a_runner_nobody_knows_is_dead_if_it_holds_something(self, store: Store) -> None:
        live(store, "a", runner="gone")
        assert store.dead(T0) == {"gone"}

    def test_what_a_runner_holds_is_known(self, store: Store) -> None:
        mine, _ = live(store, "mine"), live(store, "theirs", runner="gone")
        suspended(store, "waiting", wait("w"))
        assert set(store.held("here")) == {mine.id}

    def test_own_writes_are_no_news(self, store: Store) -> None:
        store.changed()
        live(store, "a")
        store.renew("here", LEASE)
        assert not store.changed()

    def test_callback_ids_lead_back_to_their_operation(self, store: Store) -> None:
        header = live(store, "a", callback("c"))
        (op,) = store.operations(header.id)
        assert op.callback_id is not None
        assert store.seal.callback_target(op.callback_id) == (header.id, "c")


class SharedStoreSuite(StoreSuite):
    """A store that outlives a handle, and that several processes may open."""

    @pytest.fixture
    def other(self, opening: Opening, store: Store) -> Store:
        """A second process on the same store, with a runner of its own."""
        other = opening("there")
        other.join("there", LEASE)
        store.changed()
        other.changed()
        return other

    # --- after reopening

    def test_everything_is_there_after_reopening(self, opening: Opening, store: Store) -> None:
        header = suspended(store, "a", callback("c", 60), step("s", Action.SUCCEED, payload="1"))
        before = (store.find(header.id), list(store.operations(header.id)), list(store.history(header.id)), store.input(header.id))
        store.close()
        again = opening("later")
        assert before == (again.find(header.id), list(again.operations(header.id)), list(again.history(header.id)), again.input(header.id))

    def test_a_token_made_before_is_good_after_reopening(self, opening: Opening, store: Store) -> None:
        token = store.seal.token(Position(id_at(T0), 1, 2, 3))
        store.close()
        assert opening("later").seal.position(token) == store.seal.position(token)

    def test_a_repeated_request_is_recognised_after_reopening(self, opening: Opening, store: Store) -> None:
        asked = checkpoint(live(store, "a"), callback("c"), client="c-1")
        (first,) = answers(store, asked)
        store.close()
        (again,) = answers(opening("later"), asked)
        assert again == first

    def test_a_repeated_request_is_recognised_after_reopening_and_a_takeover(self, opening: Opening, store: Store) -> None:
        header = live(store, "a")
        asked = checkpoint(header, step("s"), client="c-1")
        (first,) = answers(store, asked)
        store.close()
        later = opening("later")
        written(later, claim(header, "later", "here"))
        (again,) = answers(later, asked)
        assert isinstance(first, Checkpointed)
        assert isinstance(again, Checkpointed)
        assert again.token == first.token

    def test_a_fresh_claim_goes_on_after_reopening(self, opening: Opening, store: Store) -> None:
        header = live(store, "a", step("s"))
        store.close()
        later = opening("later")
        later.join("later", LEASE)
        assert later.dead(T0) == {"here"}
        assert list(later.claimable(ORDER, later.dead(T0), T0, 10)) == [header.id]
        taken = written(later, claim(header, "later", *later.dead(T0)))
        assert (taken.runner, taken.epoch, taken.deaths) == ("later", header.epoch + 1, 1)
        after(later, taken, step("s", Action.SUCCEED, payload="1"))
        assert [op.status for op in later.operations(header.id)] == [Status.SUCCEEDED]

    # --- two handles

    def test_each_sees_what_the_other_wrote(self, store: Store, other: Store) -> None:
        header = live(store, "a", step("s"))
        assert other.find(header.id) == store.find(header.id)
        assert list(other.operations(header.id)) == list(store.operations(header.id))

    def test_a_write_of_the_other_is_news_once(self, store: Store, other: Store) -> None:
        started(other, "a")
        assert store.changed()
        assert not store.changed()
        assert not other.changed()

    def test_a_write_of_the_other_is_news_even_if_we_wrote_since(self, store: Store, other: Store) -> None:
        started(other, "a")
        started(store, "b")
        assert store.changed()
        assert not store.changed()

    def test_a_callback_answered_by_the_other_is_seen_by_the_live_invocation(self, store: Store, other: Store) -> None:
        header = live(store, "a", callback("c"))
        (op,) = store.operations(header.id)
        assert op.callback_id is not None
        written(other, Answering(*other.seal.callback_target(op.callback_id), "1"))
        (answer,) = answers(store, checkpoint(header, step("s")))
        assert isinstance(answer, Checkpointed)
        assert [(op.id, op.status) for op in answer.operations] == [("c", Status.SUCCEEDED), ("s", Status.STARTED)]

    def test_a_callback_answered_by_the_other_wakes_a_suspended_execution(self, store: Store, other: Store) -> None:
        header = suspended(store, "a", callback("c"))
        written(other, Answering(header.id, "c", "1"), at(2))
        assert store.changed()
        assert list(store.claimable(ORDER, (), at(2), 10)) == [header.id]

    def test_no_wake_up_by_the_other_is_lost(self, store: Store, other: Store) -> None:
        header = live(store, "a", callback("c"))
        written(other, Answering(header.id, "c", "1"))
        assert written(store, settled(header, Outcome(OutcomeStatus.PENDING))).state is State.READY

    def test_a_stop_by_the_other_refuses_the_live_invocation(self, store: Store, other: Store) -> None:
        header = live(store, "a")
        written(other, Stop(header.id))
        (refused,) = answers(store, checkpoint(header, step("s")))
        assert isinstance(refused, LeaseLost)
        assert story(store, header)[-1] is E.EXECUTION_STOPPED

    def test_a_writer_that_the_other_took_over_is_refused(self, store: Store, other: Store) -> None:
        header = live(store, "a", step("s"))
        taken = written(other, claim(header, "there", "here"))
        (refused,) = answers(store, checkpoint(header, step("t")))
        assert isinstance(refused, LeaseLost)
        after(other, taken, step("s", Action.SUCCEED))
        assert [(op.id, op.status) for op in store.operations(header.id)] == [("s", Status.SUCCEEDED)]

    def test_what_comes_back_from_the_other_is_read_anew(self, store: Store, other: Store) -> None:
        """Taken over, gone on with and taken back: nothing that was remembered from before may be believed."""
        header = live(store, "a", step("s"))
        taken = after(other, written(other, claim(header, "there", "here")), step("s", Action.SUCCEED, payload="1"))
        back = written(store, claim(taken, "here", "there"))
        (refused,) = answers(store, checkpoint(back, step("s", Action.SUCCEED, payload="2")))
        assert isinstance(refused, InvalidParameter)
        assert [op.result for op in store.operations(header.id)] == ["1"]

    def test_two_handles_claim_an_execution_once(self, store: Store, other: Store) -> None:
        header = started(store, "a")
        written(store, claim(header, "here"))
        (refused,) = answers(other, claim(header, "there"))
        assert isinstance(refused, LeaseLost)

    def test_a_name_taken_by_the_other_is_taken(self, store: Store, other: Store) -> None:
        first = started(store, "a")
        same, conflict = answers(other, wanted("a"), wanted("a", "other input"))
        assert same == Started(first, False)
        assert isinstance(conflict, ExecutionAlreadyStarted)

    def test_event_numbers_have_no_gaps_when_two_write_in_turn(self, store: Store, other: Store) -> None:
        header = live(store, "a", *(callback(f"c{n}") for n in range(4)))
        for n, writer in enumerate((other, store, other, store)):
            written(writer, Answering(header.id, f"c{n}", str(n)), at(n))
            header = after(store, now_at(store, header), step(f"s{n}"), now=at(n))
        assert story(store, header) == [
            E.EXECUTION_STARTED, *[E.CALLBACK_STARTED] * 4, *[E.CALLBACK_SUCCEEDED, E.STEP_STARTED] * 4,
        ]  # fmt: skip

    def test_a_runner_whose_process_left_in_order_is_dead_at_once(self, store: Store, other: Store) -> None:
        live(store, "a", runner="there")
        assert store.dead(T0) == frozenset()
        other.close()
        assert store.dead(T0) == {"there"}
