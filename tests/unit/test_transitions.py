"""What an update may do, cell by cell. The tables here are written from the durable API's rules, not from the code's own table."""

from collections.abc import Iterator
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import codec, transitions
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import InvalidParameter, PayloadTooLarge, Rejected
from holdfast.model.execution import Birth, Terms
from holdfast.model.history import EventType as E
from holdfast.model.life import Claimant, new_execution
from holdfast.model.operations import Action, Failure, Operation, Status, Type, Update
from holdfast.model.outside import Fire
from tests.unit.lone import SEAL, SECOND, T0, Lone, update

ABSENT = None
EVERY_STATUS = (ABSENT, *Status)
START, SUCCEED, FAIL, RETRY, CANCEL = Action
RUNNER = Claimant("runner", "invocation-1")
NOW = T0 + 60 * SECOND
FAILURE = Failure("no", "Oops")

LEGAL: dict[tuple[Type, Action], dict[Status | None, tuple[Status, E]]] = {
    (Type.CONTEXT, START): {ABSENT: (Status.STARTED, E.CONTEXT_STARTED)},
    (Type.CONTEXT, SUCCEED): dict.fromkeys((ABSENT, Status.STARTED), (Status.SUCCEEDED, E.CONTEXT_SUCCEEDED)),
    (Type.CONTEXT, FAIL): dict.fromkeys((ABSENT, Status.STARTED), (Status.FAILED, E.CONTEXT_FAILED)),
    (Type.STEP, START): dict.fromkeys((ABSENT, Status.READY), (Status.STARTED, E.STEP_STARTED)),
    (Type.STEP, SUCCEED): dict.fromkeys((ABSENT, Status.STARTED, Status.READY), (Status.SUCCEEDED, E.STEP_SUCCEEDED)),
    (Type.STEP, FAIL): dict.fromkeys((ABSENT, Status.STARTED, Status.READY), (Status.FAILED, E.STEP_FAILED)),
    (Type.STEP, RETRY): dict.fromkeys((ABSENT, Status.STARTED, Status.READY), (Status.PENDING, E.STEP_SUCCEEDED)),
    (Type.WAIT, START): {ABSENT: (Status.STARTED, E.WAIT_STARTED)},
    (Type.WAIT, CANCEL): {Status.STARTED: (Status.CANCELLED, E.WAIT_CANCELLED)},
    (Type.CALLBACK, START): {ABSENT: (Status.STARTED, E.CALLBACK_STARTED)},
    (Type.CHAINED_INVOKE, START): {ABSENT: (Status.STARTED, E.CHAINED_INVOKE_STARTED)},
}
WRONG_STATE = {
    (Type.STEP, START): "Invalid current STEP state to start.",
    (Type.STEP, SUCCEED): "Invalid current STEP state to close.",
    (Type.STEP, FAIL): "Invalid current STEP state to close.",
    (Type.STEP, RETRY): "Invalid current STEP state to re-attempt.",
    (Type.CONTEXT, START): "Cannot start a CONTEXT that already exist.",
    (Type.CONTEXT, SUCCEED): "Invalid current CONTEXT state to close.",
    (Type.CONTEXT, FAIL): "Invalid current CONTEXT state to close.",
    (Type.WAIT, START): "Cannot start a WAIT that already exist.",
    (Type.WAIT, CANCEL): "Cannot cancel a WAIT that does not exist or has already completed.",
    (Type.CALLBACK, START): "Cannot start a CALLBACK that already exist.",
    (Type.CHAINED_INVOKE, START): "Cannot start a CHAINED_INVOKE operation that already exists.",
}
WRONG_ACTION = "Invalid action for the given operation type."
KINDS = [kind for kind in Type if kind is not Type.EXECUTION]
CHILD = new_execution("child", None, "other", "3", payload="1", now=NOW, terms=Terms())


def cells(*, legal: bool) -> Iterator[tuple[Type, Action, Status | None]]:
    for kind, action, status in product(KINDS, Action, EVERY_STATUS):
        if (status in LEGAL.get((kind, action), {})) is legal:
            yield kind, action, status


def live(*operations: Operation) -> Lone:
    """A live execution that has these operations."""
    execution = Lone.begun(RUNNER)
    execution.operations.update((op.id, op) for op in operations)
    return execution


def recorded(kind: Type, status: Status, **set_to: object) -> Operation:
    """An operation that stands somewhere."""
    known: dict[str, object] = {"id": "a", "type": kind, "status": status, "started_at": T0, "place": 1, "revision": 1}
    return Operation(**(known | set_to))  # type: ignore[arg-type]


def applied(execution: Lone, *updates: Update, now: int = NOW) -> WriteDraft:
    draft = WriteDraft(execution, now)
    transitions.apply(draft, updates, SEAL, {"a": Birth(CHILD, "1")})
    return draft


def refused(execution: Lone, *updates: Update) -> str:
    """Why a batch is refused. It must be refused whole: nothing is changed, the token is not used up."""
    before = (execution.header, dict(execution.operations), dict(execution.rows))
    with pytest.raises(Rejected) as refusal:
        execution.checkpoint(*updates, now=NOW)
    assert (execution.header, execution.operations, execution.rows) == before
    return str(refusal.value)


# --- the table ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, action, status", list(cells(legal=True)))
def test_a_legal_update_moves_its_operation_and_writes_one_event(kind: Type, action: Action, status: Status | None) -> None:
    execution = live() if status is ABSENT else live(recorded(kind, status))
    draft = applied(execution, update(kind, action))
    wanted_status, wanted_event = LEGAL[kind, action][status]
    assert [op.status for op in draft.operations.values()] == [wanted_status]
    assert [(event.type, event.operation_id, event.at) for event in draft.events] == [(wanted_event, "a", NOW)]


@pytest.mark.parametrize("kind, action, status", list(cells(legal=False)))
def test_an_illegal_update_is_refused_in_the_words_of_the_service(kind: Type, action: Action, status: Status | None) -> None:
    execution = live() if status is ABSENT else live(recorded(kind, status))
    assert refused(execution, update(kind, action)) == WRONG_STATE.get((kind, action), WRONG_ACTION)


def test_the_table_in_the_code_has_no_move_that_the_rules_do_not_know() -> None:
    ours = {key: dict(moves) for key, moves in transitions.MOVES.items() if key[0] is not Type.EXECUTION}
    assert ours == {key: {before: after for before, (after, _) in moves.items()} for key, moves in LEGAL.items()}


def test_a_chained_invoke_tells_which_execution_it_started_and_starts_it_with_the_same_change() -> None:
    draft = applied(live(), update(Type.CHAINED_INVOKE, START, function_name="other", tenant_id="t", payload="1"))
    (event,) = draft.events
    assert event.payload == "1"
    assert event.detail == {
        "FunctionName": "other",
        "TenantId": "t",
        "ExecutedVersion": "3",
        "DurableExecutionArn": "arn:aws:lambda:local:000000000000:function:other:3/durable-execution/child/child",
    }
    assert [birth.header for birth in draft.births] == [CHILD]
    assert draft.pending == 1


@pytest.mark.parametrize(
    "children, error",
    [({}, Failure("Function not found: other", "ResourceNotFoundException")), ({"a": FAILURE}, FAILURE)],
)
def test_a_chained_invoke_without_a_target_fails_in_the_same_change(children: transitions.Children, error: Failure) -> None:
    draft = WriteDraft(live(), NOW)
    transitions.apply(draft, [update(Type.CHAINED_INVOKE, START, function_name="other")], SEAL, children)
    (op,) = draft.operations.values()
    assert (op.status, op.error, op.ended_at) == (Status.FAILED, error, NOW)
    assert [event.type for event in draft.events] == [E.CHAINED_INVOKE_STARTED, E.CHAINED_INVOKE_FAILED]
    assert draft.events[0].detail == {"FunctionName": "other"}
    assert (draft.births, draft.pending) == ([], 0)


@pytest.mark.parametrize("action", [SUCCEED, FAIL])
def test_an_execution_update_closes_and_makes_no_second_operation(action: Action) -> None:
    execution = live()
    draft = WriteDraft(execution, NOW)
    closing = update(Type.EXECUTION, action, "execution-result-1767225600000")
    assert transitions.apply(draft, [closing], SEAL) is closing
    assert (draft.operations, draft.events) == ({}, [])


@pytest.mark.parametrize("action", [START, RETRY, CANCEL])
def test_an_execution_can_only_be_closed(action: Action) -> None:
    assert refused(live(), update(Type.EXECUTION, action)) == WRONG_ACTION


@pytest.mark.parametrize("kind", [Type.CONTEXT, Type.STEP])
def test_an_operation_may_be_closed_without_having_been_started(kind: Type) -> None:
    draft = applied(live(), update(kind, SUCCEED, name="fast", sub_type="Step", payload="1"))
    (op,) = draft.operations.values()
    assert (op.name, op.sub_type, op.result, op.started_at, op.ended_at, op.place) == ("fast", "Step", "1", NOW, NOW, 2)


# --- what an update brings along ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Type.STEP, Type.CONTEXT, Type.EXECUTION])
def test_fail_takes_no_payload(kind: Type) -> None:
    assert refused(live(), update(kind, FAIL, payload="1")) == "Cannot provide a Payload for FAIL action."


@pytest.mark.parametrize("kind", [Type.STEP, Type.CONTEXT, Type.EXECUTION])
def test_succeed_takes_no_error(kind: Type) -> None:
    assert refused(live(), update(kind, SUCCEED, error=FAILURE)) == "Cannot provide an Error for SUCCEED action."


def test_retry_takes_an_error_or_a_payload_but_not_both() -> None:
    both = update(Type.STEP, RETRY, error=FAILURE, payload="1")
    assert refused(live(), both) == "Cannot provide both error and payload to RETRY a STEP."


def test_retry_without_options_is_refused() -> None:
    assert refused(live(), update(Type.STEP, RETRY, delay_seconds=None)) == "Invalid StepOptions for the given action."


@pytest.mark.parametrize("kind, action, option", [(Type.STEP, RETRY, "delay_seconds"), (Type.WAIT, START, "wait_seconds")])
@pytest.mark.parametrize("seconds, allowed", [(0, False), (1, True), (31_622_400, True), (31_622_401, False), (-1, False)])
def test_a_delay_is_one_second_to_366_days(kind: Type, action: Action, option: str, seconds: int, allowed: bool) -> None:
    asked = msgspec.structs.replace(update(kind, action), **{option: seconds})
    if allowed:
        (op,) = applied(live(), asked).operations.values()
        assert op.due_at == NOW + seconds * SECOND
    else:
        assert "must be between 1 and 31622400" in refused(live(), asked)


def test_a_wait_needs_its_seconds() -> None:
    assert "WaitSeconds" in refused(live(), update(Type.WAIT, START, wait_seconds=None))


@pytest.mark.parametrize("option", ["timeout_seconds", "heartbeat_seconds"])
@pytest.mark.parametrize("seconds, allowed", [(0, True), (1, True), (99_999_999, True), (100_000_000, False), (-1, False)])
def test_a_callback_timeout_is_nothing_up_to_the_largest_allowed(option: str, seconds: int, allowed: bool) -> None:
    asked = msgspec.structs.replace(update(Type.CALLBACK, START), **{option: seconds})
    if allowed:
        (op,) = applied(live(), asked).operations.values()
        assert op.due_at == (NOW + seconds * SECOND if seconds else None)
    else:
        assert "between 0 and 99999999" in refused(live(), asked)


@pytest.mark.parametrize("kind, name", [(Type.STEP, "STEP"), (Type.CONTEXT, "CONTEXT"), (Type.EXECUTION, "Execution")])
def test_a_payload_may_be_as_large_as_the_limit_counted_in_bytes(kind: Type, name: str) -> None:
    limit = codec.MAX_PAYLOAD_BYTES
    fits = "é" * (limit // 2)
    applied(live(), update(kind, SUCCEED, payload=fits))
    with pytest.raises(PayloadTooLarge) as refusal:
        applied(live(), update(kind, SUCCEED, payload=fits + "x"))
    assert str(refusal.value) == f"{name} output payload size must be less than or equal to {limit} bytes."


@pytest.mark.parametrize("member", ["id", "name", "sub_type", "payload"])
def test_a_text_that_cannot_be_stored_is_refused_with_its_own_batch(member: str) -> None:
    """A lone surrogate is a Python string but no Unicode text: written down it would fail the commit of every entry."""
    asked = msgspec.structs.replace(update(Type.STEP, SUCCEED), **{member: "\ud800"})
    assert "Unicode" in refused(live(), asked)


def test_an_error_that_cannot_be_stored_as_it_is_is_stored_readably() -> None:
    """The text of an error is not in the author's hand (a file name that is no UTF-8, say), so it is never refused."""
    draft = applied(live(), update(Type.STEP, FAIL, error=Failure("no file \udcff")))
    (event,) = draft.events
    assert event.payload is not None
    assert codec.failure_from(event.payload).message == "no file \\udcff"


@pytest.mark.parametrize("length, allowed", [(0, False), (1, True), (64, True), (65, False)])
def test_an_operation_id_has_1_to_64_characters(length: int, allowed: bool) -> None:
    asked = update(Type.STEP, START, "x" * length)
    if allowed:
        assert list(applied(live(), asked).operations) == ["x" * length]
    else:
        assert "Operation id" in refused(live(), asked)


def test_an_operation_name_has_at_most_256_characters() -> None:
    applied(live(), update(Type.STEP, START, name="n" * 256))
    assert "Operation name" in refused(live(), update(Type.STEP, START, name="n" * 257))


# --- a batch -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Type.STEP, Type.CONTEXT])
@pytest.mark.parametrize("action", [SUCCEED, FAIL])
def test_an_operation_may_start_and_end_in_one_batch(kind: Type, action: Action) -> None:
    draft = applied(live(), update(kind, START), update(kind, action))
    assert [event.number for event in draft.events] == [2, 3]
    assert [op.status for op in draft.operations.values()] == [LEGAL[kind, action][Status.STARTED][0]]


def test_a_step_may_start_and_be_retried_in_one_batch() -> None:
    (op,) = applied(live(), update(Type.STEP, START), update(Type.STEP, RETRY)).operations.values()
    assert (op.status, op.attempt) == (Status.PENDING, 1)


@pytest.mark.parametrize(
    "batch",
    [
        (update(Type.STEP, START), update(Type.STEP, START)),
        (update(Type.STEP, SUCCEED), update(Type.STEP, SUCCEED)),
        (update(Type.STEP, SUCCEED), update(Type.STEP, START)),
        (update(Type.STEP, START), update(Type.STEP, RETRY), update(Type.STEP, SUCCEED)),
        (update(Type.WAIT, START), update(Type.WAIT, CANCEL)),
        (update(Type.CALLBACK, START), update(Type.CALLBACK, START)),
    ],
)
def test_an_id_comes_once_in_a_batch_except_a_start_and_its_end(batch: tuple[Update, ...]) -> None:
    assert refused(live(), *batch) == "Cannot checkpoint multiple operations with the same ID."


def test_a_batch_has_one_execution_update_at_most() -> None:
    twice = (update(Type.EXECUTION, SUCCEED, "x"), update(Type.EXECUTION, SUCCEED, "y"))
    assert refused(live(), *twice) == "Cannot checkpoint multiple EXECUTION updates."


def test_an_execution_update_comes_last() -> None:
    batch = (update(Type.EXECUTION, SUCCEED, "x"), update(Type.STEP, START))
    assert refused(live(), *batch) == "EXECUTION checkpoint must be the last update."


def test_one_bad_update_refuses_the_whole_batch() -> None:
    batch = (update(Type.STEP, START, "a"), update(Type.WAIT, START, "b"), update(Type.WAIT, CANCEL, "nobody"))
    assert refused(live(), *batch) == WRONG_STATE[Type.WAIT, CANCEL]


def test_events_are_in_the_order_of_the_batch() -> None:
    batch = [update(Type.STEP, START, name) for name in ("c", "a", "b")]
    assert [event.operation_id for event in applied(live(), *batch).events] == ["c", "a", "b"]


def test_a_parent_is_a_context_started_before_or_earlier_in_the_batch() -> None:
    child = update(Type.STEP, START, "child", parent_id="a")
    assert applied(live(recorded(Type.CONTEXT, Status.STARTED)), child).operations["child"].parent_id == "a"
    assert applied(live(), update(Type.CONTEXT, START, "a"), child).operations["child"].parent_id == "a"


@pytest.mark.parametrize("kind", [Type.STEP, Type.WAIT, Type.CALLBACK])
def test_only_a_context_can_be_a_parent(kind: Type) -> None:
    child = update(Type.STEP, START, "child", parent_id="a")
    assert refused(live(recorded(kind, Status.STARTED)), child) == "Invalid parent operation id."


def test_a_parent_that_does_not_exist_yet_is_refused() -> None:
    child = update(Type.STEP, START, "child", parent_id="a")
    assert refused(live(), child) == "Invalid parent operation id."
    assert refused(live(), child, update(Type.CONTEXT, START, "a")) == "Invalid parent operation id."


@pytest.mark.parametrize(
    "other, message",
    [
        ({"sub_type": "WaitForCondition"}, "Inconsistent operation subtype."),
        ({"name": "other"}, "Inconsistent operation name."),
        ({"parent_id": "other"}, "Inconsistent parent operation id."),
    ],
)
def test_an_operation_stays_what_it_was_called(other: dict[str, str], message: str) -> None:
    known = recorded(Type.STEP, Status.STARTED, sub_type="Step", name="charge", parent_id="parent")
    assert refused(live(known), update(Type.STEP, SUCCEED, **other)) == message


def test_an_operation_keeps_its_type() -> None:
    assert refused(live(recorded(Type.STEP, Status.STARTED)), update(Type.CONTEXT, SUCCEED)) == "Inconsistent operation type."


def test_what_an_update_leaves_out_is_kept() -> None:
    known = recorded(Type.STEP, Status.STARTED, sub_type="Step", name="charge", parent_id="parent")
    (op,) = applied(live(known), update(Type.STEP, SUCCEED, payload="1")).operations.values()
    assert (op.sub_type, op.name, op.parent_id, op.started_at, op.place) == ("Step", "charge", "parent", T0, 1)


# --- attempts ----------------------------------------------------------------------------------------------------------------


def test_attempts_count_finished_ones() -> None:
    execution, seen = live(), []
    for asked, later in [(START, 1), (RETRY, 2), (START, 10), (RETRY, 11), (START, 20), (SUCCEED, 21)]:
        execution.checkpoint(update(Type.STEP, asked), now=T0 + later * SECOND)
        seen.append((asked, execution.operations["a"].attempt))
    assert seen == [(START, 0), (RETRY, 1), (START, 1), (RETRY, 2), (START, 2), (SUCCEED, 3)]


def test_the_next_attempt_keeps_the_state_of_the_last_one() -> None:
    before = recorded(Type.STEP, Status.READY, result='{"polls": 3}', attempt=3, payload_event=7)
    (op,) = applied(live(before), update(Type.STEP, START)).operations.values()
    assert (op.status, op.result, op.attempt, op.payload_event) == (Status.STARTED, '{"polls": 3}', 3, 7)


def test_a_retry_with_an_error_is_told_as_a_failure_with_its_delay() -> None:
    draft = applied(live(recorded(Type.STEP, Status.STARTED, attempt=1)), update(Type.STEP, RETRY, error=FAILURE, delay_seconds=7))
    (event,), (op,) = draft.events, draft.operations.values()
    assert (event.type, event.detail) == (E.STEP_FAILED, {"RetryDetails": {"CurrentAttempt": 2, "NextAttemptDelaySeconds": 7}})
    assert event.payload is not None
    assert codec.failure_from(event.payload) == FAILURE
    assert (op.error, op.result, op.due_at, op.attempt, op.ended_at) == (FAILURE, None, NOW + 7 * SECOND, 2, None)


@pytest.mark.parametrize("state", ['{"polls": 1}', None])
def test_a_retry_without_an_error_is_told_as_a_success_with_its_state(state: str | None) -> None:
    draft = applied(live(recorded(Type.STEP, Status.STARTED)), update(Type.STEP, RETRY, payload=state))
    (event,), (op,) = draft.events, draft.operations.values()
    assert (event.type, event.payload) == (E.STEP_SUCCEEDED, state)
    assert event.detail == {"RetryDetails": {"CurrentAttempt": 1, "NextAttemptDelaySeconds": 5}}
    assert (op.result, op.error, op.payload_event) == (state, None, event.number)


@pytest.mark.parametrize("action", [SUCCEED, FAIL])
def test_the_last_attempt_is_told_without_a_next_delay(action: Action) -> None:
    (event,) = applied(live(recorded(Type.STEP, Status.READY, attempt=2)), update(Type.STEP, action)).events
    assert event.detail == {"RetryDetails": {"CurrentAttempt": 3}}


def test_a_failure_without_an_error_is_stored_as_an_empty_one() -> None:
    (op,) = applied(live(), update(Type.STEP, FAIL)).operations.values()
    assert op.error == Failure()


# --- waits, callbacks, contexts ----------------------------------------------------------------------------------------------


def test_a_wait_says_how_long_and_until_when() -> None:
    (event,) = applied(live(), update(Type.WAIT, START, wait_seconds=30)).events
    assert event.detail == {"Duration": 30, "ScheduledEndTimestamp": (NOW + 30 * SECOND) / 1000}


def test_a_cancelled_wait_has_no_timer_and_may_say_why() -> None:
    waiting = recorded(Type.WAIT, Status.STARTED, due_at=NOW + SECOND)
    draft = applied(live(waiting), update(Type.WAIT, CANCEL, error=FAILURE))
    (event,), (op,) = draft.events, draft.operations.values()
    assert (op.due_at, op.ended_at, op.error) == (None, NOW, FAILURE)
    assert event.payload == codec.failure_text(FAILURE)


def test_a_cancelled_wait_never_carries_a_result() -> None:
    """Its event carries an error or nothing: a stray payload there could not be read back."""
    waiting = recorded(Type.WAIT, Status.STARTED, due_at=NOW + SECOND)
    draft = applied(live(waiting), update(Type.WAIT, CANCEL, payload="not an error"))
    (event,), (op,) = draft.events, draft.operations.values()
    assert (event.payload, op.result, op.error) == (None, None, None)


def test_a_callback_gets_its_id_in_the_same_answer() -> None:
    answer = live().checkpoint(update(Type.CALLBACK, START), now=NOW)
    (op,) = answer.operations
    assert op.callback_id is not None
    assert SEAL.callback_target(op.callback_id) == (live().header.id, "a")


@pytest.mark.parametrize(
    "timeout, heartbeat, told", [(0, 0, {}), (60, 0, {"Timeout": 60}), (60, 5, {"Timeout": 60, "HeartbeatTimeout": 5})]
)
def test_a_callback_tells_only_the_timeouts_it_has(timeout: int, heartbeat: int, told: dict[str, int]) -> None:
    draft = applied(live(), update(Type.CALLBACK, START, timeout_seconds=timeout, heartbeat_seconds=heartbeat))
    (event,), (op,) = draft.events, draft.operations.values()
    assert event.detail == told | {"CallbackId": op.callback_id}


def test_a_context_remembers_that_its_children_are_to_be_replayed() -> None:
    (op,) = applied(live(recorded(Type.CONTEXT, Status.STARTED)), update(Type.CONTEXT, SUCCEED, replay_children=True)).operations.values()
    assert op.replay_children


# --- against a second, naive model -------------------------------------------------------------------------------------------


class Naive:
    """The same rules as a person would check them by hand: statuses in a dict, nothing else."""

    def __init__(self) -> None:
        self.operations: dict[str, tuple[Type, Status, int, str | None]] = {}
        self.due: dict[str, int] = {}
        self.events: list[tuple[E, str]] = []

    def tick(self, now: int) -> None:
        for name, at in sorted(self.due.items(), key=lambda item: item[1]):
            kind, _, attempt, parent = self.operations[name]
            if at <= now:
                del self.due[name]
                self.operations[name] = (kind, Status.READY if kind is Type.STEP else Status.SUCCEEDED, attempt, parent)
                if kind is Type.WAIT:
                    self.events.append((E.WAIT_SUCCEEDED, name))

    def batch(self, updates: list[Update], now: int) -> bool:
        saved = dict(self.operations), dict(self.due), list(self.events)
        self.tick(now)
        ids = [asked.id for asked in updates]
        fine = all(self._repeats_well(updates, name) for name in set(ids)) and all(self._one(asked, now) for asked in updates)
        if not fine:
            self.operations, self.due, self.events = saved
        return fine

    @staticmethod
    def _repeats_well(updates: list[Update], name: str) -> bool:
        same = [asked for asked in updates if asked.id == name]
        pair = len(same) == 2 and same[0].action is START and same[1].action is not START and same[1].type in (Type.STEP, Type.CONTEXT)
        return len(same) == 1 or pair

    def _one(self, asked: Update, now: int) -> bool:
        kind, status, attempt, parent = self.operations.get(asked.id, (asked.type, ABSENT, 0, asked.parent_id))
        mother = self.operations.get(asked.parent_id or "")
        if asked.parent_id and status is ABSENT and (mother is None or mother[0] is not Type.CONTEXT):
            return False
        moves = LEGAL.get((asked.type, asked.action), {})
        if kind is not asked.type or (asked.parent_id and parent != asked.parent_id) or status not in moves:
            return False
        after, event = moves[status]
        if asked.action is RETRY and asked.error is not None:
            event = E.STEP_FAILED
        finished = kind is Type.STEP and asked.action is not START
        self.operations[asked.id] = (kind, after, attempt + finished, parent)
        self.due.pop(asked.id, None)
        if after is Status.PENDING:
            self.due[asked.id] = now + 5 * SECOND
        elif kind is Type.WAIT and after is Status.STARTED:
            self.due[asked.id] = now + 10 * SECOND
        self.events.append((event, asked.id))
        if kind is Type.CHAINED_INVOKE:  # no function is hosted here
            self.operations[asked.id] = (kind, Status.FAILED, attempt, parent)
            self.events.append((E.CHAINED_INVOKE_FAILED, asked.id))
        return True


def asked_updates() -> st.SearchStrategy[Update]:
    def built(key: tuple[Type, Action], name: str, parent: str | None, failed: bool) -> Update:
        wrong = failed and key[1] in (RETRY, FAIL)
        return update(*key, name, parent_id=parent, error=FAILURE if wrong else None)

    keys = st.sampled_from([*LEGAL, *LEGAL, (Type.WAIT, RETRY), (Type.CALLBACK, SUCCEED)])
    return st.builds(built, keys, st.sampled_from("abc"), st.sampled_from([None, None, None, "a", "b"]), st.booleans())


@given(st.lists(st.tuples(st.integers(0, 12), st.lists(asked_updates(), max_size=4)), max_size=12))
def test_any_sequence_of_batches_ends_where_a_naive_reading_of_the_rules_ends(rounds: list[tuple[int, list[Update]]]) -> None:
    execution, naive, now = Lone.begun(RUNNER), Naive(), T0
    for seconds, updates in rounds:
        now += seconds * SECOND
        try:
            execution.checkpoint(*updates, now=now)
        except InvalidParameter:
            assert not naive.batch(updates, now), "refused, though the rules allow it"
        else:
            assert naive.batch(updates, now), "accepted, though the rules forbid it"
    execution.do(Fire(execution.header.id), now)
    naive.tick(now)
    assert {op.id: (op.type, op.status, op.attempt, op.parent_id) for op in execution.operations.values()} == naive.operations
    assert {op.id: op.due_at for op in execution.operations.values() if op.due_at is not None} == naive.due
    assert [(event.type, event.operation_id) for event in execution.history[1:]] == naive.events
