"""Read back: the store returns what it acknowledged unchanged: headers, operations, payloads and the history."""

import msgspec
import pytest

from holdfast.model import codec
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.history import EventType as E
from holdfast.model.operations import Action, Operation, Status, Type, Update
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpointed, Write
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    OOPS,
    after,
    answers,
    at,
    callback,
    checkpoint,
    claim,
    execution_succeeds,
    live,
    now_at,
    settled,
    step,
    story,
    suspended,
    wait,
    written,
)


class KeepingSuite(OneHandle):
    """Tests: writing and reading back. They need one handle of the store."""

    def test_of_many_executions_the_ended_and_the_quarantined_are_found(self, store: Store) -> None:
        running, resting = live(store, "running"), suspended(store, "resting", callback("c"))
        stopped = written(store, Stop(live(store, "stopped").id))
        done = written(store, settled(live(store, "done"), Outcome(OutcomeStatus.SUCCEEDED, "1")))
        aside = written(store, settled(live(store, "aside"), Outcome(OutcomeStatus.MISMATCHED, None, OOPS)))
        live(store, "not asked for")
        named = {header.id: header.name for header in (running, resting, stopped, done, aside)}
        assert {named[execution] for execution in store.ended([*named, "no such id"])} == {"stopped", "done", "aside"}
        assert list(store.ended([])) == []

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

    def test_operations_are_read_in_pages(self, store: Store) -> None:
        header = live(store, "a", *(step(f"s{n}") for n in range(5)))
        pages = [[op.id for op in store.operations(header.id, after=place, limit=2)] for place in (0, 3, 5, 6)]
        assert pages == [["s0", "s1"], ["s2", "s3"], ["s4"], []]
        after(store, header, step("s1", Action.SUCCEED), step("s4", Action.SUCCEED))
        assert [op.id for op in store.operations(header.id, header.revision, after=3, limit=2)] == ["s4"]

    def test_contexts_come_in_the_order_they_began_without_what_they_came_to(self, store: Store) -> None:
        branch = Update(id="z", type=Type.CONTEXT, action=Action.START)
        header = live(store, "a", branch, step("s", parent_id="z"), msgspec.structs.replace(branch, id="a", parent_id="z"))
        after(store, header, Update(id="a", type=Type.CONTEXT, action=Action.SUCCEED, payload="1", replay_children=True))
        after(store, now_at(store, header), Update(id="f", type=Type.CONTEXT, action=Action.FAIL, error=OOPS))
        told = [(op.id, op.parent_id, op.status, op.replay_children, op.result, op.error) for op in store.contexts(header.id)]
        assert told == [
            ("z", None, Status.STARTED, False, None, None),
            ("a", "z", Status.SUCCEEDED, True, None, None),
            ("f", None, Status.FAILED, False, None, None),
        ]

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

    def test_callback_ids_lead_back_to_their_operation(self, store: Store) -> None:
        header = live(store, "a", callback("c"))
        (op,) = store.operations(header.id)
        assert op.callback_id is not None
        assert store.seal.callback_target(op.callback_id) == (header.id, "c")

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
