"""The life of an execution, decided purely. `Lone` checks with every write that EventIds have no gaps and times never go back."""

from collections.abc import Callable

import msgspec
import pytest

from holdfast.model import codec, life
from holdfast.model.errors import (
    CallbackClosed,
    CallbackNotFound,
    ExecutionAlreadyStarted,
    HoldfastError,
    InvalidParameter,
    InvalidToken,
    LeaseLost,
)
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus, Quarantine, State, Terms
from holdfast.model.history import Event, event_to_wire
from holdfast.model.history import EventType as E
from holdfast.model.ids import Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Failure, Status, Type, Update
from holdfast.model.outside import Answering, Fire, Heartbeat, Release, Stop
from holdfast.model.verbs import Checkpoint, Checkpointed, Claim, Settle, Start, Write
from tests.unit.lone import HOUR, ID, SEAL, SECOND, T0, Lone, header, update

ME = Claimant("me", "me-1")
OOPS = Failure("boom", "Oops")
STEP = update(Type.STEP, Action.START, "step")
WAIT = update(Type.WAIT, Action.START, "wait", wait_seconds=10)
CALLBACK = update(Type.CALLBACK, Action.START, "call")
SUCCEEDS = update(Type.EXECUTION, Action.SUCCEED, "execution-result-1", payload='"done"')
FAILS = update(Type.EXECUTION, Action.FAIL, "execution-result-1", error=OOPS)


def at(seconds: float) -> int:
    return T0 + int(seconds * SECOND)


def live(*updates: Update) -> Lone:
    """An execution whose first invocation is live and has written these."""
    execution = Lone.begun(ME)
    if updates:
        execution.checkpoint(*updates, now=at(1))
    return execution


def suspended(*updates: Update) -> Lone:
    """An execution that waits for these."""
    execution = live(*updates)
    settle(execution, Outcome(OutcomeStatus.PENDING), now=at(2))
    assert execution.header.state is State.SUSPENDED
    return execution


def settle(
    execution: Lone, outcome: Outcome, now: int, *, seen: int | None = None, by: Claimant | None = None, jitter: float = 1.0
) -> None:
    header = execution.header
    assert header.invocation is not None
    revision = header.revision if seen is None else seen
    epoch = header.epoch - (header.state is State.CLOSING)  # the handler knows only the epoch it was invoked with
    asked = Settle(execution=ID, epoch=epoch, invocation=header.invocation, seen=revision, outcome=outcome, jitter=jitter, by=by)
    execution.do(asked, now)


def error_of(event: Event) -> Failure:
    assert event.payload is not None
    return codec.failure_from(event.payload)


def unchanged(execution: Lone, write: Write, now: int, error: type[HoldfastError]) -> str:
    """The refusal of a write, which must leave everything as it was."""
    before = (execution.header, dict(execution.operations), dict(execution.rows))
    with pytest.raises(error) as refusal:
        execution.do(write, now)
    assert (execution.header, execution.operations, execution.rows) == before
    return str(refusal.value)


# --- start and claim ---------------------------------------------------------------------------------------------------------


def test_a_new_execution_is_ready_and_has_its_first_event() -> None:
    execution = Lone.begun()
    assert (execution.header.state, execution.header.revision, execution.header.deadline) == (State.READY, 1, T0 + HOUR)
    assert execution.history == [Event(1, E.EXECUTION_STARTED, T0, None, '{"order": 1}', {"ExecutionTimeout": 3600})]


def test_a_start_may_claim_in_the_same_change() -> None:
    assert (live().header.state, live().header.runner, live().header.epoch) == (State.RUNNING, "me", 1)


def test_a_start_with_a_known_name_and_input_finds_the_execution() -> None:
    execution = Lone.begun()
    change, answer = Start(header(id="another"), "{}").decide(execution, at(1), SEAL)
    assert (change, answer.header, answer.created) == (None, execution.header, False)


@pytest.mark.parametrize(
    "other, differs",
    [
        ({"input_hash": "other"}, "The input differs from the one that it was started with. Use another name, or the same input."),
        ({"version": "2"}, "The version differs: it was started with $LATEST, and this start asks for 2."),
        (
            {"input_hash": "other", "version": "2"},
            "The input differs from the one that it was started with, and so does the version ($LATEST, not 2). "
            "Use another name, or the same input.",
        ),
    ],
)
def test_a_start_with_a_known_name_and_another_input_or_version_is_a_conflict(other: dict[str, str], differs: str) -> None:
    message = unchanged(Lone.begun(), Start(header(**other), "{}"), at(1), ExecutionAlreadyStarted)
    arn = f"arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/order-1/{ID}"
    assert message == f"Execution already started: {arn}. {differs}"


def test_a_claim_is_a_new_invocation_under_a_new_epoch() -> None:
    execution = Lone.begun()
    claimed = execution.claim("me", at(5))
    assert (claimed.state, claimed.epoch, claimed.sequence, claimed.invocation) == (State.RUNNING, 1, 0, "me-1")
    assert (claimed.invoked_at, execution.story) == (at(5), [E.EXECUTION_STARTED])


@pytest.mark.parametrize("dead", [(), ("another runner",)])
def test_a_live_execution_cannot_be_claimed(dead: tuple[str, ...]) -> None:
    unchanged(live(), Claim(ID, Claimant("you", "you-1"), frozenset(dead)), at(1), LeaseLost)


def test_a_suspended_execution_cannot_be_claimed() -> None:
    unchanged(suspended(WAIT), Claim(ID, Claimant("you", "you-1")), at(3), LeaseLost)


def test_a_takeover_tells_of_the_dead_invocation_in_the_change_that_begins_the_new_one() -> None:
    execution = live(STEP)
    claimed = execution.claim("you", at(9), dead=["me"])
    assert (claimed.state, claimed.runner, claimed.epoch, claimed.deaths) == (State.RUNNING, "you", 2, 1)
    last = execution.history[-1]
    assert (last.type, error_of(last).type) == (E.INVOCATION_COMPLETED, "Runtime.ExitError")
    assert last.detail == {"StartTimestamp": T0 / 1000, "EndTimestamp": at(9) / 1000, "RequestId": "me-1"}


def test_a_dead_invocation_cannot_write_any_more() -> None:
    execution = live(STEP)
    old = execution.position
    execution.claim("you", at(9), dead=["me"])
    unchanged(execution, Checkpoint(old, (WAIT,)), at(10), LeaseLost)
    pending = Settle(execution=ID, epoch=old.epoch, invocation="me-1", seen=9, outcome=Outcome(OutcomeStatus.PENDING))
    unchanged(execution, pending, at(10), LeaseLost)


def test_timers_that_became_due_meanwhile_are_told_after_the_dead_invocation() -> None:
    execution = live(WAIT)
    execution.claim("you", at(60), dead=["me"])
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.WAIT_SUCCEEDED]


def suspect() -> Lone:
    """An execution under which two runners died without progress."""
    execution = live()
    execution.claim("b", at(1), dead=["me"])
    execution.claim("c", at(2), dead=["b"])
    return execution


def test_after_two_deaths_an_execution_is_a_suspect_that_nobody_has() -> None:
    left = suspect().header
    assert (left.state, left.runner, left.invocation, left.deaths, left.ready_at) == (State.READY, None, None, 2, at(2))
    assert suspect().story[-2:] == [E.INVOCATION_COMPLETED, E.INVOCATION_COMPLETED]


def test_a_suspect_is_claimed_only_by_a_runner_that_has_nothing_else() -> None:
    execution = suspect()
    unchanged(execution, Claim(ID, Claimant("c", "c-1")), at(3), LeaseLost)
    claimed = execution.claim("c", at(3), alone=True)
    assert (claimed.state, claimed.runner, claimed.deaths, claimed.epoch) == (State.RUNNING, "c", 2, 4)


def test_a_suspect_is_not_claimed_by_what_changes_it() -> None:
    execution = live(CALLBACK, WAIT)
    execution.claim("b", at(2), dead=["me"])
    execution.claim("c", at(3), dead=["b"])
    execution.do(Answering(ID, "call", "1", by=Claimant("c", "c-1")), at(4))
    execution.do(Fire(ID, Claimant("c", "c-2")), at(11))
    assert execution.story[-2:] == [E.CALLBACK_SUCCEEDED, E.WAIT_SUCCEEDED]
    assert (execution.header.state, execution.header.deaths) == (State.READY, 2)


def test_a_suspects_old_token_is_dead() -> None:
    execution = live()
    execution.claim("b", at(1), dead=["me"])
    old = execution.position
    execution.claim("c", at(2), dead=["b"])
    unchanged(execution, Checkpoint(old, (STEP,)), at(3), LeaseLost)


def put_aside(hours: int = 1) -> Lone:
    execution = Lone.begun(ME, terms=Terms(hours * 3600))
    execution.claim("b", at(1), dead=["me"])
    execution.claim("c", at(2), dead=["b"])
    execution.claim("c", at(2), alone=True)
    execution.claim("d", at(3), dead=["c"])
    return execution


def test_after_three_deaths_without_progress_an_execution_is_put_aside_for_a_minute() -> None:
    execution = put_aside()
    left = execution.header
    assert (left.state, left.runner, left.invocation, left.deaths) == (State.READY, None, None, 3)
    assert (left.ready_at, left.due_at, life.next_try(left)) == (at(63), at(63), at(63))
    for alone in (False, True):
        unchanged(execution, Claim(ID, Claimant("e", "e-1"), frozenset({"c"}), alone), at(62.9), LeaseLost)
    unchanged(execution, Claim(ID, Claimant("e", "e-1")), at(63), LeaseLost)
    assert execution.claim("e", at(63), alone=True).state is State.RUNNING


def test_its_timers_do_not_lose_the_time_of_its_next_try() -> None:
    execution = live(WAIT)
    for runner, dead in (("b", "me"), ("c", "b")):
        execution.claim(runner, at(2), dead=[dead])
    execution.claim("c", at(2), alone=True)
    execution.claim("d", at(3), dead=["c"])
    assert execution.header.due_at == at(11)
    execution.do(Fire(ID), at(11))
    assert execution.header.due_at == at(63)
    execution.do(Fire(ID), at(63))
    assert (execution.header.due_at, execution.header.state) == (execution.header.deadline, State.READY)


def test_it_is_tried_after_a_minute_ten_minutes_and_an_hour_and_then_quarantined() -> None:
    execution = put_aside(hours=48)
    tries, now = [], at(3)
    for runner in ("e", "f", "g"):
        tries.append((execution.header.ready_at - now) // 1000)
        execution.claim(runner, execution.header.ready_at, alone=True)
        now = execution.header.invoked_at or 0
        execution.claim("z", now, dead=[runner])
    assert tries == [60, 600, 3600]
    left = execution.header
    assert (left.state, left.status, left.deaths) == (State.QUARANTINED, ExecutionStatus.RUNNING, 6)
    assert life.reason_of(left) is left.quarantine is Quarantine.RUNNER_DIED
    unchanged(execution, Claim(ID, Claimant("h", "h-1"), frozenset({"g"}), True), now + HOUR, LeaseLost)


def test_progress_in_a_further_try_forgives_everything() -> None:
    execution = put_aside()
    execution.claim("e", at(63), alone=True)
    execution.checkpoint(STEP, now=at(64))
    assert (execution.header.deaths, life.next_try(execution.header)) == (0, None)


def test_a_person_need_not_wait_for_the_next_try() -> None:
    execution = put_aside()
    execution.do(Release(ID), at(5))
    assert execution.claim("e", at(5)).state is State.RUNNING


def test_one_that_waits_for_its_next_try_still_times_out() -> None:
    execution = put_aside()
    execution.do(Fire(ID), T0 + HOUR)
    assert execution.header.status is ExecutionStatus.TIMED_OUT


def test_a_quarantine_that_older_code_wrote_has_the_reason_its_deaths_tell() -> None:
    old = msgspec.structs.replace(live().header, state=State.QUARANTINED)
    assert life.reason_of(old) is Quarantine.PAYLOAD_UNREADABLE
    assert life.reason_of(msgspec.structs.replace(old, deaths=3)) is Quarantine.RUNNER_DIED


def test_progress_forgives_deaths() -> None:
    execution = suspect()
    execution.claim("c", at(2), alone=True)
    execution.checkpoint(STEP, now=at(3))
    assert execution.claim("d", at(4), dead=["c"]).state is State.RUNNING
    assert execution.header.deaths == 1


def test_an_invocation_that_fails_by_itself_forgives_deaths() -> None:
    execution = suspect()
    execution.claim("c", at(2), alone=True)
    settle(execution, Outcome(OutcomeStatus.CRASHED, None, OOPS), at(3))
    assert (execution.header.deaths, execution.header.failures) == (0, 1)


def test_an_empty_checkpoint_is_no_progress() -> None:
    execution = live()
    execution.claim("b", at(1), dead=["me"])
    execution.checkpoint(now=at(2))
    assert execution.header.deaths == 1


def quarantined() -> Lone:
    """One whose code does not match its history."""
    execution = live()
    settle(execution, Outcome(OutcomeStatus.MISMATCHED, None, OOPS), at(3))
    assert (execution.header.state, execution.header.quarantine) == (State.QUARANTINED, Quarantine.REPLAY_MISMATCH)
    return execution


def test_a_mismatch_quarantines_and_the_end_of_the_invocation_tells_it() -> None:
    execution = quarantined()
    left = execution.header
    assert (left.status, left.runner, left.invocation, left.due_at) == (ExecutionStatus.RUNNING, None, None, left.deadline)
    assert execution.story == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED]
    assert left.quarantine_event == 2


def test_a_person_can_release_a_quarantined_execution() -> None:
    execution = quarantined()
    execution.do(Release(ID), at(5))
    assert (execution.header.state, execution.header.deaths) == (State.READY, 0)
    assert execution.claim("e", at(6)).state is State.RUNNING


def test_only_a_quarantined_execution_can_be_released() -> None:
    assert "neither quarantined nor waiting" in unchanged(live(), Release(ID), at(1), InvalidParameter)


def test_a_quarantined_execution_still_times_out() -> None:
    execution = quarantined()
    execution.do(Fire(ID), T0 + HOUR)
    assert execution.header.status is ExecutionStatus.TIMED_OUT


# --- how an invocation ends --------------------------------------------------------------------------------------------------


def test_a_handler_that_succeeds_closes_its_execution() -> None:
    execution = live()
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED, '"done"'), at(4))
    assert execution.story == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED, E.EXECUTION_SUCCEEDED]
    closed = execution.header
    assert (closed.status, closed.state, closed.ended_at, closed.result_event) == (ExecutionStatus.SUCCEEDED, State.CLOSED, at(4), 3)
    assert (closed.runner, closed.due_at, execution.rows[3].payload) == (None, None, '"done"')


def test_a_handler_that_fails_closes_its_execution_without_a_function_error() -> None:
    execution = live()
    settle(execution, Outcome(OutcomeStatus.FAILED, None, OOPS), at(4))
    *_, completed, failed = execution.history
    assert (completed.type, completed.payload) == (E.INVOCATION_COMPLETED, None)
    assert (failed.type, error_of(failed)) == (E.EXECUTION_FAILED, OOPS)


def test_a_result_that_cannot_be_stored_fails_the_execution() -> None:
    execution = live()
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED, '"\ud800"'), at(4))
    assert execution.header.status is ExecutionStatus.FAILED
    assert "Unicode" in (error_of(execution.history[-1]).message or "")


def test_a_handler_that_has_something_pending_suspends() -> None:
    execution = suspended(WAIT)
    left = execution.header
    assert (left.state, left.runner, left.invocation, left.due_at) == (State.SUSPENDED, None, None, at(11))
    assert execution.story[-1] is E.INVOCATION_COMPLETED


@pytest.mark.parametrize("updates", [(), (STEP,), (update(Type.CONTEXT, Action.START, "context"),)])
def test_pending_with_nothing_pending_fails_with_the_official_message(updates: tuple[Update, ...]) -> None:
    execution = live(*updates)
    settle(execution, Outcome(OutcomeStatus.PENDING), at(4))
    assert execution.header.status is ExecutionStatus.FAILED
    assert error_of(execution.history[-1]).message == "Cannot return PENDING status with no pending operations."
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_FAILED]


def answered_callback(execution: Lone) -> None:
    execution.do(Answering(ID, "call", "1"), at(2))


def finished_wait(execution: Lone) -> None:
    execution.checkpoint(now=at(12))


@pytest.mark.parametrize("update, serve", [(CALLBACK, answered_callback), (WAIT, finished_wait)], ids=["callback", "wait"])
def test_a_handler_that_did_not_act_on_what_it_waited_for_is_invoked_once_more(update: Update, serve: Callable[[Lone], None]) -> None:
    execution = live(update)
    serve(execution)
    settle(execution, Outcome(OutcomeStatus.PENDING), at(13), by=Claimant("me", "me-2"))
    assert (execution.header.state, execution.header.invocation) == (State.RUNNING, "me-2")
    settle(execution, Outcome(OutcomeStatus.PENDING), at(14))
    assert execution.header.status is ExecutionStatus.FAILED
    assert error_of(execution.history[-1]).message == "Cannot return PENDING status with no pending operations."


def test_pending_with_unseen_changes_is_ready_again_at_once() -> None:
    execution = live(CALLBACK)
    seen = execution.header.revision
    execution.do(Answering(ID, "call", "1"), at(2))
    settle(execution, Outcome(OutcomeStatus.PENDING), at(3), seen=seen)
    assert (execution.header.state, execution.header.ready_at) == (State.READY, at(3))


def test_pending_is_ready_again_at_once_when_a_timer_is_due() -> None:
    execution = live(WAIT)
    settle(execution, Outcome(OutcomeStatus.PENDING), at(11))
    assert execution.header.state is State.READY
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.WAIT_SUCCEEDED]


def test_a_step_seen_as_ready_but_not_started_brings_the_execution_back_once() -> None:
    execution = live(STEP, msgspec.structs.replace(STEP, action=Action.RETRY, delay_seconds=10, error=Failure("no")))
    execution.checkpoint(now=at(11))
    assert execution.operations[STEP.id].status is Status.READY
    states = []
    for seconds in (12, 13):
        settle(execution, Outcome(OutcomeStatus.PENDING), at(seconds), by=Claimant("me", "me-2"))
        states.append(execution.header.state)
    assert states == [State.RUNNING, State.SUSPENDED]


def test_what_became_ready_may_be_claimed_in_the_same_change() -> None:
    execution = live(WAIT)
    settle(execution, Outcome(OutcomeStatus.PENDING), at(11), by=Claimant("me", "me-2"))
    assert (execution.header.state, execution.header.invocation, execution.header.epoch) == (State.RUNNING, "me-2", 2)


def test_a_suspension_is_not_claimed_in_the_same_change() -> None:
    execution = live(WAIT)
    settle(execution, Outcome(OutcomeStatus.PENDING), at(3), by=Claimant("me", "me-2"))
    assert execution.header.state is State.SUSPENDED


def test_a_crashed_invocation_carries_its_error_and_is_tried_again_later() -> None:
    execution = live(STEP)
    settle(execution, Outcome(OutcomeStatus.CRASHED, None, OOPS), at(4))
    left = execution.header
    assert (left.state, left.ready_at, left.failures, left.runner) == (State.READY, at(5), 1, None)
    assert error_of(execution.history[-1]) == OOPS
    unchanged(execution, Claim(ID, ME), at(4.9), LeaseLost)
    assert execution.claim("me", at(5)).state is State.RUNNING


def test_a_crashed_invocations_token_is_dead_before_the_next_claim() -> None:
    execution = live(STEP)
    old = execution.position
    settle(execution, Outcome(OutcomeStatus.CRASHED, None, OOPS), at(4))
    unchanged(execution, Checkpoint(old, ()), at(4), LeaseLost)


def test_nine_failures_in_a_row_fail_the_execution_with_the_last_error() -> None:
    execution, now = live(), at(0)
    for failure in range(1, 10):
        settle(execution, Outcome(OutcomeStatus.CRASHED, None, Failure(f"boom {failure}")), now)
        assert (execution.header.status is ExecutionStatus.FAILED) is (failure == 9)
        if failure < 9:
            now = execution.header.ready_at
            execution.claim("me", now)
    assert error_of(execution.history[-1]).message == "boom 9"
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_FAILED]


@pytest.mark.parametrize("updates, failures", [((STEP,), 0), ((), 1)])
def test_any_accepted_update_forgives_failures(updates: tuple[Update, ...], failures: int) -> None:
    execution = live()
    settle(execution, Outcome(OutcomeStatus.CRASHED, None, OOPS), at(1))
    execution.claim("me", at(5))
    execution.checkpoint(*updates, now=at(6))
    assert execution.header.failures == failures


def test_the_backoff_doubles_from_one_second_to_sixty() -> None:
    assert [life.backoff_ms(failures, 1.0) / SECOND for failures in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_jitter_takes_at_most_half_of_the_backoff() -> None:
    assert [life.backoff_ms(3, jitter) for jitter in (0.0, 0.5, 1.0)] == [2 * SECOND, 3 * SECOND, 4 * SECOND]


def test_an_interrupted_invocation_is_ready_at_once_and_counts_as_no_failure() -> None:
    execution = live(STEP)
    old = execution.position
    settle(execution, Outcome(OutcomeStatus.INTERRUPTED), at(4))
    left = execution.header
    assert (left.state, left.ready_at, left.failures, left.deaths, left.runner) == (State.READY, at(4), 0, 0, None)
    assert execution.history[-1].payload is None
    unchanged(execution, Checkpoint(old, ()), at(4), LeaseLost)


def test_an_invocation_never_ends_before_it_began() -> None:
    """The clock may have been set back between the two."""
    execution = Lone.begun()
    execution.claim("me", at(100))
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED), at(50))
    detail = execution.history[1].detail
    assert detail is not None
    assert detail["StartTimestamp"] <= detail["EndTimestamp"]


def test_event_times_never_go_back_even_if_the_clock_does() -> None:
    execution = live(WAIT)
    execution.checkpoint(STEP, now=at(-500))
    assert [event.at for event in execution.history] == [T0, at(1), at(1)]


# --- closing from inside -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closing, status", [(SUCCEEDS, ExecutionStatus.SUCCEEDED), (FAILS, ExecutionStatus.FAILED)])
def test_an_execution_update_closes_the_status_at_once(closing: Update, status: ExecutionStatus) -> None:
    execution = live(STEP)
    answer = execution.checkpoint(closing, now=at(5))
    assert answer.token is None
    closed = execution.header
    assert (closed.status, closed.state, closed.ended_at, closed.due_at) == (status, State.CLOSING, at(5), None)
    assert execution.story == [E.EXECUTION_STARTED, E.STEP_STARTED], "the terminal event waits for InvocationCompleted"


@pytest.mark.parametrize(
    "outcome", [Outcome(OutcomeStatus.SUCCEEDED, ""), Outcome(OutcomeStatus.FAILED, None, OOPS), Outcome(OutcomeStatus.PENDING)]
)
def test_after_an_execution_update_the_output_is_ignored(outcome: Outcome) -> None:
    execution = live()
    execution.checkpoint(SUCCEEDS, now=at(5))
    settle(execution, outcome, at(6))
    assert execution.story == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED, E.EXECUTION_SUCCEEDED]
    closed = execution.header
    assert (closed.state, closed.status, closed.ended_at, closed.result_event) == (State.CLOSED, ExecutionStatus.SUCCEEDED, at(5), 3)
    assert execution.rows[3].payload == '"done"'


def test_a_function_error_after_an_execution_update_is_still_told() -> None:
    execution = live()
    execution.checkpoint(SUCCEEDS, now=at(5))
    settle(execution, Outcome(OutcomeStatus.CRASHED, None, OOPS), at(6))
    assert error_of(execution.history[1]) == OOPS
    assert execution.header.status is ExecutionStatus.SUCCEEDED


def test_a_takeover_of_a_closing_execution_finishes_it_and_starts_nothing() -> None:
    execution = live()
    execution.checkpoint(SUCCEEDS, now=at(5))
    left = execution.claim("you", at(90), dead=["me"])
    assert (left.state, left.runner, left.invocation) == (State.CLOSED, None, None)
    assert execution.story == [E.EXECUTION_STARTED, E.INVOCATION_COMPLETED, E.EXECUTION_SUCCEEDED]
    assert error_of(execution.history[1]).type == "Runtime.ExitError"


@pytest.mark.parametrize(
    "write, error",
    [
        (Checkpoint(Position(ID, 1, 1, 2), (WAIT,)), LeaseLost),
        (Checkpoint(Position(ID, 2, 1, 2), (WAIT,)), LeaseLost),
        (Answering(ID, "call", "1"), CallbackClosed),
        (Heartbeat(ID, "call"), CallbackClosed),
        (Claim(ID, Claimant("you", "you-1")), LeaseLost),
    ],
)
@pytest.mark.parametrize("settled", [False, True])
def test_a_closed_execution_takes_no_write(write: Write, error: type[HoldfastError], settled: bool) -> None:
    execution = live(CALLBACK)
    execution.checkpoint(SUCCEEDS, now=at(5))
    if settled:
        settle(execution, Outcome(OutcomeStatus.SUCCEEDED), at(6))
    unchanged(execution, write, at(7), error)


def test_operations_still_open_at_the_close_are_left_as_they_are() -> None:
    execution = live(WAIT, CALLBACK)
    execution.checkpoint(SUCCEEDS, now=at(5))
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED), at(6))
    execution.do(Fire(ID), T0 + HOUR)
    assert [op.status for op in execution.operations.values()] == [Status.STARTED, Status.STARTED]
    assert execution.story[-1] is E.EXECUTION_SUCCEEDED


# --- closing from outside ----------------------------------------------------------------------------------------------------


def test_stopping_a_live_execution_completes_its_invocation_first() -> None:
    execution = live(STEP)
    old = execution.position
    execution.do(Stop(ID, OOPS), at(5))
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_STOPPED]
    assert execution.history[-2].payload is None
    closed = execution.header
    assert (closed.status, closed.state, closed.ended_at, closed.runner) == (ExecutionStatus.STOPPED, State.CLOSED, at(5), None)
    unchanged(execution, Checkpoint(old, (WAIT,)), at(6), LeaseLost)


@pytest.mark.parametrize("begun", [lambda: suspended(WAIT), Lone.begun])
def test_stopping_an_execution_that_nobody_runs_writes_only_the_terminal_event(begun: Callable[[], Lone]) -> None:
    execution = begun()
    before = execution.story
    execution.do(Stop(ID, OOPS), at(5))
    assert execution.story == [*before, E.EXECUTION_STOPPED]
    assert error_of(execution.history[-1]) == OOPS


@pytest.mark.parametrize("settled", [False, True])
def test_stopping_a_closed_execution_changes_nothing(settled: bool) -> None:
    execution = live()
    execution.checkpoint(SUCCEEDS, now=at(5))
    if settled:
        settle(execution, Outcome(OutcomeStatus.SUCCEEDED), at(6))
    before = execution.header
    assert execution.do(Stop(ID, OOPS), at(7)) == before
    assert execution.header == before


def test_a_stop_without_an_error_records_an_empty_one() -> None:
    execution = live()
    execution.do(Stop(ID), at(5))
    assert error_of(execution.history[-1]) == Failure()


@pytest.mark.parametrize("begun, invoked", [(lambda: live(STEP), True), (lambda: suspended(CALLBACK), False), (Lone.begun, False)])
def test_an_execution_times_out_at_its_deadline_and_not_before(begun: Callable[[], Lone], invoked: bool) -> None:
    execution = begun()
    before = execution.story
    execution.do(Fire(ID), T0 + HOUR - 1)
    assert execution.header.status is ExecutionStatus.RUNNING
    execution.do(Fire(ID), T0 + HOUR)
    assert execution.story == [*before, *([E.INVOCATION_COMPLETED] if invoked else []), E.EXECUTION_TIMED_OUT]
    assert error_of(execution.history[-1]) == Failure("Execution timed out after 3600 seconds.")
    assert (execution.header.status, execution.header.state) == (ExecutionStatus.TIMED_OUT, State.CLOSED)


def test_a_checkpoint_past_the_deadline_times_out_instead() -> None:
    execution = live(STEP)
    answer = execution.checkpoint(WAIT, now=T0 + HOUR)
    assert (answer.token, answer.operations, "wait" in execution.operations) == (None, (), False)
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_TIMED_OUT]


def test_a_suspension_past_the_deadline_times_out_instead() -> None:
    execution = live(CALLBACK)
    settle(execution, Outcome(OutcomeStatus.PENDING), T0 + HOUR)
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_TIMED_OUT]


def test_a_takeover_past_the_deadline_times_out_instead() -> None:
    execution = live(STEP)
    execution.claim("you", T0 + HOUR, dead=["me"])
    assert execution.story[-2:] == [E.INVOCATION_COMPLETED, E.EXECUTION_TIMED_OUT]


# --- timers ------------------------------------------------------------------------------------------------------------------


def test_a_wait_ends_when_it_is_due_and_wakes_its_execution() -> None:
    execution = suspended(WAIT)
    execution.do(Fire(ID), at(10.999))
    assert execution.header.state is State.SUSPENDED
    execution.do(Fire(ID), at(11))
    assert (execution.header.state, execution.operations["wait"].status) == (State.READY, Status.SUCCEEDED)
    assert (execution.operations["wait"].ended_at, execution.history[-1].detail) == (at(11), {"Duration": 10})


def test_a_retry_becomes_ready_without_an_event() -> None:
    execution = suspended(update(Type.STEP, Action.RETRY, "step", delay_seconds=5, payload="1"))
    told = execution.story
    execution.do(Fire(ID), at(6))
    step = execution.operations["step"]
    assert (step.status, step.due_at, step.attempt, step.result) == (Status.READY, None, 1, "1")
    assert (execution.header.state, execution.story) == (State.READY, told)


def test_timers_fire_in_the_order_they_are_due() -> None:
    late, soon = (update(Type.WAIT, Action.START, name, wait_seconds=s) for name, s in (("late", 20), ("soon", 10)))
    execution = suspended(late, soon)
    execution.do(Fire(ID), at(60))
    assert [event.operation_id for event in execution.history[-2:]] == ["soon", "late"]


def test_after_firing_the_next_timer_is_known() -> None:
    execution = suspended(WAIT, update(Type.WAIT, Action.START, "later", wait_seconds=30))
    execution.do(Fire(ID), at(11))
    assert execution.header.due_at == at(31)


def test_firing_too_early_only_corrects_the_lower_bound() -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=5), WAIT)
    execution.do(Answering(ID, "call", "1"), at(3))
    assert execution.header.due_at == at(6), "the answered callback's timer still stands as the bound"
    told = execution.story
    execution.do(Fire(ID), at(6))
    assert (execution.header.due_at, execution.story) == (at(11), told)


def test_an_empty_checkpoint_fires_what_is_due_and_returns_it() -> None:
    execution = live(WAIT, update(Type.STEP, Action.RETRY, "step", delay_seconds=5))
    answer = execution.checkpoint(now=at(20))
    assert {op.id: op.status for op in answer.operations} == {"step": Status.READY, "wait": Status.SUCCEEDED}


# --- callbacks ---------------------------------------------------------------------------------------------------------------


def test_an_answer_closes_the_callback_and_wakes_the_execution() -> None:
    execution = suspended(CALLBACK)
    execution.do(Answering(ID, "call", '"yes"'), at(5))
    call = execution.operations["call"]
    assert (call.status, call.result, call.ended_at, call.due_at) == (Status.SUCCEEDED, '"yes"', at(5), None)
    assert execution.header.state is State.READY
    assert (execution.story[-1], execution.history[-1].payload) == (E.CALLBACK_SUCCEEDED, '"yes"')


@pytest.mark.parametrize("error", [OOPS, Failure()])
def test_a_failing_answer_wakes_too_even_without_an_error_given(error: Failure) -> None:
    execution = suspended(CALLBACK)
    execution.do(Answering(ID, "call", None, error), at(5))
    call = execution.operations["call"]
    assert (call.status, call.error, call.result) == (Status.FAILED, error, None)
    assert (execution.header.state, execution.story[-1]) == (State.READY, E.CALLBACK_FAILED)


def test_an_answer_may_claim_in_the_same_change() -> None:
    execution = suspended(CALLBACK)
    execution.do(Answering(ID, "call", "1", by=Claimant("me", "me-2")), at(5))
    assert (execution.header.state, execution.header.invocation) == (State.RUNNING, "me-2")


def test_an_answer_to_a_live_execution_is_delivered_by_its_next_checkpoint() -> None:
    execution = live(CALLBACK)
    seen = execution.position
    execution.do(Answering(ID, "call", "1"), at(2))
    assert execution.header.state is State.RUNNING
    answer = execution.checkpoint(at=seen, now=at(3))
    assert [(op.id, op.status) for op in answer.operations] == [("call", Status.SUCCEEDED)]


def test_an_early_answer_is_not_lost() -> None:
    """It comes before the handler looks, before it suspends, and after both were decided without it."""
    execution = live(CALLBACK, WAIT)
    seen = execution.header.revision
    execution.do(Answering(ID, "call", "1"), at(1))
    settle(execution, Outcome(OutcomeStatus.PENDING), at(2), seen=seen)
    assert execution.header.state is State.READY


def test_the_first_answer_wins() -> None:
    execution = suspended(CALLBACK)
    execution.do(Answering(ID, "call", "1"), at(5))
    message = unchanged(execution, Answering(ID, "call", "2"), at(6), CallbackClosed)
    assert message == "The callback is either timed out or already completed."


@pytest.mark.parametrize("name", ["nobody", "wait"])
def test_only_a_callback_can_be_answered(name: str) -> None:
    unchanged(suspended(WAIT), Answering(ID, name, "1"), at(5), CallbackNotFound)
    unchanged(suspended(WAIT), Heartbeat(ID, name), at(5), CallbackNotFound)


def test_an_answer_that_cannot_be_stored_is_refused() -> None:
    unchanged(suspended(CALLBACK), Answering(ID, "call", '"\ud800"'), at(5), InvalidParameter)


def test_a_callback_times_out() -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=60))
    execution.do(Fire(ID), at(61))
    call = execution.operations["call"]
    assert (call.status, call.error) == (Status.TIMED_OUT, Failure("Callback timed out", "Callback.Timeout"))
    assert (execution.header.state, execution.story[-1]) == (State.READY, E.CALLBACK_TIMED_OUT)


def test_a_callback_whose_heartbeat_stays_away_times_out_for_that() -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=60, heartbeat_seconds=10))
    execution.do(Fire(ID), at(11))
    assert execution.operations["call"].error == Failure("Callback timed out on heartbeat", "Callback.Heartbeat")


def test_the_timer_that_ran_out_first_is_named_however_late_it_fires() -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=60, heartbeat_seconds=10))
    execution.do(Fire(ID), at(600))
    assert execution.operations["call"].error == Failure("Callback timed out on heartbeat", "Callback.Heartbeat")


def test_a_heartbeat_restarts_its_own_timer_and_never_the_general_one() -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=25, heartbeat_seconds=10))
    told = execution.story
    for beat in (9, 18):
        execution.do(Heartbeat(ID, "call"), at(beat))
        assert execution.operations["call"].due_at == min(at(beat + 10), at(26))
    assert execution.story == told, "a heartbeat is not part of the story"
    assert execution.header.state is State.SUSPENDED, "a heartbeat wakes no handler"
    execution.do(Fire(ID), at(26))
    assert execution.operations["call"].error == Failure("Callback timed out", "Callback.Timeout")


def test_a_heartbeat_while_the_handler_works_is_no_news_that_invokes_it_again() -> None:
    execution = live(msgspec.structs.replace(CALLBACK, timeout_seconds=60, heartbeat_seconds=10))
    seen = execution.header.revision
    execution.do(Heartbeat(ID, "call"), at(2))
    settle(execution, Outcome(OutcomeStatus.PENDING), now=at(3), seen=seen)
    assert execution.header.state is State.SUSPENDED


def test_a_heartbeat_of_a_callback_without_heartbeat_timeout_sets_no_timer() -> None:
    execution = suspended(CALLBACK)
    execution.do(Heartbeat(ID, "call"), at(9))
    assert execution.operations["call"].due_at is None


@pytest.mark.parametrize("late", [Answering(ID, "call", "1"), Heartbeat(ID, "call")])
def test_an_answer_after_the_timeout_is_too_late_even_if_the_timer_did_not_fire_yet(late: Write) -> None:
    execution = suspended(msgspec.structs.replace(CALLBACK, timeout_seconds=60))
    unchanged(execution, late, at(61), CallbackClosed)


def test_an_answer_after_the_deadline_is_too_late() -> None:
    unchanged(suspended(CALLBACK), Answering(ID, "call", "1"), T0 + HOUR, CallbackClosed)


# --- tokens ------------------------------------------------------------------------------------------------------------------


def test_every_accepted_checkpoint_uses_up_its_token() -> None:
    execution = live()
    first = execution.position
    execution.checkpoint(now=at(1))
    assert unchanged(execution, Checkpoint(first, (STEP,)), at(2), InvalidToken) == "Invalid checkpoint token"


def test_the_next_token_is_for_the_next_write_and_what_was_seen() -> None:
    execution = live()
    answer = execution.checkpoint(STEP, now=at(1))
    assert answer.token is not None
    assert answer.token == execution.position


def test_a_refused_checkpoint_does_not_use_up_its_token() -> None:
    execution = live()
    unchanged(execution, Checkpoint(execution.position, (update(Type.WAIT, Action.CANCEL),)), at(1), InvalidParameter)
    assert execution.checkpoint(STEP, now=at(1)).token is not None


def test_a_token_of_the_future_is_refused() -> None:
    execution = live()
    unchanged(execution, Checkpoint(execution.position._replace(sequence=5), ()), at(1), InvalidToken)


def test_a_moved_revision_does_not_refuse_a_write() -> None:
    execution = live(CALLBACK)
    seen = execution.position
    execution.do(Answering(ID, "call", "1"), at(2))
    answer = execution.checkpoint(STEP, at=seen, now=at(3))
    assert [op.id for op in answer.operations] == ["call", "step"]


def test_an_answer_lists_what_changed_in_the_order_it_changed() -> None:
    two = update(Type.CALLBACK, Action.START, "first"), update(Type.CALLBACK, Action.START, "second")
    execution = live(*two)
    seen = execution.position
    execution.do(Answering(ID, "second", "1"), at(2))
    execution.do(Answering(ID, "first", "1"), at(3))
    assert [op.id for op in execution.checkpoint(STEP, at=seen, now=at(4)).operations] == ["second", "first", "step"]


def test_a_repeated_request_gets_the_same_next_token_and_writes_nothing() -> None:
    execution = live()
    position = execution.position
    first = execution.checkpoint(STEP, now=at(1), client="c-1")
    before = execution.header
    again = execution.checkpoint(STEP, at=position, now=at(2), client="c-1")
    assert (again.token, again.operations, again.revision) == (first.token, first.operations, first.revision)
    assert execution.header == before


def test_a_repeated_request_sees_the_operations_as_they_are_now() -> None:
    execution = live()
    position = execution.position
    first = execution.checkpoint(CALLBACK, now=at(1), client="c-1")
    execution.do(Answering(ID, "call", "1"), at(2))
    again = execution.checkpoint(CALLBACK, at=position, now=at(3), client="c-1")
    assert again.token == first.token
    assert [(op.id, op.status) for op in again.operations] == [("call", Status.SUCCEEDED)]


def test_a_repeated_request_is_recognised_before_its_epoch_is_checked() -> None:
    """It was accepted, and its sender only did not hear it. That another invocation lives now it learns with its next write."""
    execution = live()
    position = execution.position
    first = execution.checkpoint(STEP, now=at(1), client="c-1")
    execution.claim("you", at(5), dead=["me"])
    again = execution.checkpoint(STEP, at=position, now=at(6), client="c-1")
    assert again.token == first.token
    assert again.token is not None
    unchanged(execution, Checkpoint(again.token, (WAIT,)), at(7), LeaseLost)


def test_a_repeated_closing_request_is_told_again_that_it_closed() -> None:
    execution = live()
    position = execution.position
    execution.checkpoint(SUCCEEDS, now=at(1), client="c-1")
    assert execution.checkpoint(SUCCEEDS, at=position, now=at(2), client="c-1").token is None
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED), at(3))
    assert execution.checkpoint(SUCCEEDS, at=position, now=at(4), client="c-1").token is None


def test_a_repeated_request_is_stale_once_a_later_one_was_accepted() -> None:
    execution = live()
    position = execution.position
    execution.checkpoint(STEP, now=at(1), client="c-1")
    execution.checkpoint(WAIT, now=at(2), client="c-2")
    unchanged(execution, Checkpoint(position, (STEP,), "c-1"), at(3), InvalidToken)


def test_a_repeated_request_is_stale_once_a_later_one_without_client_token_was_accepted() -> None:
    execution = live()
    position = execution.position
    execution.checkpoint(STEP, now=at(1), client="c-1")
    execution.checkpoint(WAIT, now=at(2))
    unchanged(execution, Checkpoint(position, (STEP,), "c-1"), at(3), InvalidToken)


def test_a_repeated_request_is_stale_once_the_execution_was_closed_by_somebody_else() -> None:
    execution = live()
    position = execution.position
    execution.checkpoint(STEP, now=at(1), client="c-1")
    execution.do(Stop(ID), at(2))
    unchanged(execution, Checkpoint(position, (STEP,), "c-1"), at(3), LeaseLost)


def test_another_client_token_for_a_used_position_is_refused() -> None:
    execution = live()
    position = execution.position
    execution.checkpoint(STEP, now=at(1), client="c-1")
    unchanged(execution, Checkpoint(position, (STEP,), "c-2"), at(3), InvalidToken)


def test_the_same_client_token_for_the_next_position_is_a_new_request() -> None:
    execution = live()
    execution.checkpoint(STEP, now=at(1), client="c-1")
    answer = execution.checkpoint(WAIT, now=at(2), client="c-1")
    assert [op.id for op in answer.operations] == ["wait"]


# --- the whole story ---------------------------------------------------------------------------------------------------------


def test_the_story_of_a_wait_reads_as_in_the_service() -> None:
    execution = suspended(WAIT)
    execution.do(Fire(ID, Claimant("me", "me-2")), at(11))
    settle(execution, Outcome(OutcomeStatus.SUCCEEDED, "1"), at(12))
    assert [event_to_wire(event, (ID, "order-1"), None, include_data=True)["EventType"] for event in execution.history] == [
        "ExecutionStarted", "WaitStarted", "InvocationCompleted", "WaitSucceeded", "InvocationCompleted", "ExecutionSucceeded",
    ]  # fmt: skip


def test_answers_are_what_the_verbs_promise() -> None:
    assert isinstance(Lone.begun(ME).checkpoint(now=at(1)), Checkpointed)
