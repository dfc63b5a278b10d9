"""Chained writes: if a write of one execution also changes another one, both changes are written, or neither."""

from typing import Any

import msgspec

from holdfast.model.execution import Birth, Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms
from holdfast.model.history import EventType as E
from holdfast.model.life import Claimant, new_execution
from holdfast.model.operations import Action, Failure, Status, Type, Update
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Checkpoint
from holdfast.store.seam import Hosted, Store
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    OOPS,
    answers,
    at,
    callback,
    claim,
    execution_succeeds,
    id_at,
    live,
    now_at,
    position,
    settled,
    started,
    story,
    written,
)

INVOKE = Update(id="i", type=Type.CHAINED_INVOKE, action=Action.START, function_name="order", payload="[1]")


def birth(parent: Execution, **set_to: Any) -> Birth:
    """A child that the operation `i` of the parent starts, as a part of the parent's checkpoint. `set_to` replaces fields of its header."""
    header = new_execution(id_at(at(0)), None, "order", "$LATEST", payload="[1]", now=at(0), terms=Terms(60))
    placed: dict[str, Any] = {"parent": parent.id, "parent_operation": "i"} | set_to
    return Birth(msgspec.structs.replace(header, **placed), "[1]")


def invoking(parent: Execution, child: Birth) -> Checkpoint:
    """The checkpoint that starts a child."""
    return Checkpoint(position(parent), (INVOKE,), None, {"i": child})


def chained(store: Store, **set_to: Any) -> tuple[Execution, Execution]:
    """Write a suspended parent and the child that it waits for, and return both headers. `set_to` replaces fields of the child's header."""
    parent = live(store, "parent")
    child = birth(parent, **set_to)
    written(store, invoking(parent, child))
    return written(store, settled(now_at(store, parent), Outcome(OutcomeStatus.PENDING))), now_at(store, child.header)


def run(store: Store, header: Execution, outcome: Outcome, **more: Any) -> Execution:
    """Claim an execution, end its invocation with this outcome, and return the header after it. `more` replaces fields of the write that
    ends it."""
    claimed = written(store, claim(header, "here"))
    return written(store, msgspec.structs.replace(settled(claimed, outcome), **more))


class ChainingSuite(OneHandle):
    """Tests: parents and children. They need one handle of the store."""

    def test_a_child_has_its_parents_tenant_and_trace_unless_it_is_given_others(self, store: Store) -> None:
        given = {"tenant": "south", "trace": "Root=2"}
        for name, others, found in (("a", {}, ("north", "Root=1")), ("b", given, ("south", "Root=2"))):
            parent = written(store, claim(started(store, name, tenant="north", trace="Root=1"), "here"))
            child = birth(parent, **others)
            written(store, invoking(parent, child))
            begun = now_at(store, child.header)
            assert (begun.tenant, begun.trace) == found

    def test_a_child_begins_with_its_parents_checkpoint(self, store: Store) -> None:
        parent = live(store, "parent")
        child = birth(parent, tenant="t")
        committed = store.commit([invoking(parent, child)], at(1))
        (begun,) = committed.followed
        assert begun == now_at(store, begun)
        assert (begun.id, begun.parent, begun.parent_operation, begun.tenant) == (child.header.id, parent.id, "i", "t")
        assert (begun.state, begun.ready_at, begun.deadline) == (State.READY, at(1), at(61))
        assert store.input(begun.id) == "[1]"
        assert story(store, begun) == [E.EXECUTION_STARTED]
        assert [op.status for op in store.operations(parent.id)] == [Status.STARTED]

    def test_a_child_may_be_claimed_by_the_write_that_makes_it(self, store: Store) -> None:
        parent = live(store, "parent")
        child = msgspec.structs.replace(birth(parent), by=Claimant("here", "i-1"))
        committed = store.commit([invoking(parent, child)], at(1))
        (begun,) = committed.followed
        assert begun == now_at(store, begun)
        assert (begun.state, begun.runner, begun.invocation, begun.epoch) == (State.RUNNING, "here", "i-1", 1)
        assert child.header.id in set(store.held("here"))
        ended = store.commit([settled(begun, Outcome(OutcomeStatus.SUCCEEDED, "7"))], at(2))
        assert [header.id for header in ended.followed] == [parent.id]

    def test_a_live_parent_is_told_how_its_operation_ended_with_the_revision_that_the_end_left(self, store: Store) -> None:
        parent = live(store, "parent")
        child = msgspec.structs.replace(birth(parent), by=Claimant("here", "i-1"))
        store.commit([invoking(parent, child)], at(1))
        before = now_at(store, parent)
        ended = store.commit([settled(now_at(store, child.header), Outcome(OutcomeStatus.SUCCEEDED, "7"))], at(2))
        (change,) = ended.changes
        assert change.header == now_at(store, parent)
        assert (change.header.state, change.header.revision) == (State.RUNNING, before.revision + 1)
        assert [(op.id, op.status, op.result) for op in change.operations.values()] == [("i", Status.SUCCEEDED, "7")]

    def test_children_that_end_in_one_batch_are_told_of_in_their_order(self, store: Store) -> None:
        parent = live(store, "parent")
        updates = tuple(msgspec.structs.replace(INVOKE, id=f"i{n}") for n in range(40))
        born = {u.id: msgspec.structs.replace(birth(parent, parent_operation=u.id), by=Claimant("here", u.id)) for u in updates}
        begun = store.commit([Checkpoint(position(parent), updates, None, born)], at(1)).followed
        before = now_at(store, parent).revision
        done = store.commit([settled(child, Outcome(OutcomeStatus.SUCCEEDED, str(n))) for n, child in enumerate(begun)], at(2))
        assert [change.header.revision for change in done.changes] == [before + 1 + n for n in range(40)]
        assert [op.result for op in store.operations(parent.id)] == [str(n) for n in range(40)]

    def test_a_refused_checkpoint_starts_no_child(self, store: Store) -> None:
        parent = live(store, "parent")
        child = birth(parent)
        written(store, claim(parent, "there", "here"))
        assert store.commit([invoking(parent, child)], at(1)).followed == []
        assert store.find(child.header.id) is None

    def test_a_childs_result_answers_and_wakes_its_parent_in_the_same_commit(self, store: Store) -> None:
        parent, child = chained(store)
        assert parent.state is State.SUSPENDED
        claimed = written(store, claim(child, "here"))
        committed = store.commit([settled(claimed, Outcome(OutcomeStatus.SUCCEEDED, '"done"'))], at(5))
        (woken,) = committed.followed
        assert woken == now_at(store, parent)
        assert (woken.state, woken.ready_at, woken.pending) == (State.READY, at(5), 0)
        (op,) = store.operations(parent.id)
        assert (op.status, op.result, op.ended_at) == (Status.SUCCEEDED, '"done"', at(5))
        assert story(store, parent)[-1] is E.CHAINED_INVOKE_SUCCEEDED

    def test_a_child_that_closes_early_answers_with_the_closing_update(self, store: Store) -> None:
        parent, child = chained(store)
        claimed = written(store, claim(child, "here"))
        committed = store.commit([Checkpoint(position(claimed), (execution_succeeds("7"),))], at(5))
        assert [header.id for header in committed.followed] == [parent.id]
        assert [op.result for op in store.operations(parent.id)] == ["7"]

    def test_how_a_child_ended_is_how_the_operation_ended(self, store: Store) -> None:
        for outcome, status, event, error in (
            (Outcome(OutcomeStatus.FAILED, error=OOPS), Status.FAILED, E.CHAINED_INVOKE_FAILED, OOPS),
            (None, Status.STOPPED, E.CHAINED_INVOKE_STOPPED, Failure("enough")),
        ):
            parent = live(store, f"parent of {status}")
            child = birth(parent)
            written(store, invoking(parent, child))
            if outcome is None:
                written(store, Stop(child.header.id, Failure("enough")))
            else:
                run(store, child.header, outcome)
            assert [(op.status, op.error) for op in store.operations(parent.id)] == [(status, error)]
            assert story(store, parent)[-1] is event

    def test_a_late_child_answers_with_a_timeout(self, store: Store) -> None:
        parent, child = chained(store)
        claimed = written(store, claim(child, "here"), at(61))
        assert claimed.status is ExecutionStatus.TIMED_OUT
        (op,) = store.operations(parent.id)
        assert op.status is Status.TIMED_OUT
        assert op.error == Failure("CHAINED_INVOKE timed out after 60 seconds.", "ChainedInvoke.Timeout")

    def test_a_parent_that_is_gone_does_not_keep_its_child_from_ending(self, store: Store) -> None:
        parent, child = chained(store, cascade=False)
        closed = written(store, Stop(parent.id))
        assert run(store, child, Outcome(OutcomeStatus.SUCCEEDED, "1")).status is ExecutionStatus.SUCCEEDED
        assert now_at(store, parent) == closed

    def test_a_stop_stops_the_children_that_are_still_open_and_theirs(self, store: Store) -> None:
        parent, child = chained(store)
        claimed = written(store, claim(child, "here"))
        grandchild = birth(claimed)
        written(store, invoking(claimed, grandchild))
        committed = store.commit([Stop(parent.id, Failure("enough"))], at(5))
        assert [header.id for header in committed.followed] == [child.id, grandchild.header.id]
        for header in (parent, child, grandchild.header):
            assert now_at(store, header).status is ExecutionStatus.STOPPED
            assert store.result(now_at(store, header)) == '{"ErrorMessage":"enough"}'

    def test_a_stop_may_spare_the_children_and_a_child_may_be_spared(self, store: Store) -> None:
        parent, child = chained(store)
        assert store.commit([Stop(parent.id, cascade=False)], at(5)).followed == []
        assert now_at(store, child).status is ExecutionStatus.RUNNING
        detached = live(store, "other")
        spared = birth(detached, cascade=False)
        written(store, invoking(detached, spared))
        assert store.commit([Stop(detached.id)], at(5)).followed == []
        assert now_at(store, spared.header).status is ExecutionStatus.RUNNING

    def test_a_child_of_the_same_batch_is_stopped_too(self, store: Store) -> None:
        parent = live(store, "parent")
        child = birth(parent)
        store.commit([invoking(parent, child), Stop(parent.id)], at(1))
        assert now_at(store, child.header).status is ExecutionStatus.STOPPED

    def test_an_execution_that_continues_is_followed_by_its_heir_under_the_same_parent(self, store: Store) -> None:
        parent, child = chained(store, cascade=False, tenant="t", trace="r")
        heir = id_at(at(3))
        closed = run(store, child, Outcome(OutcomeStatus.CONTINUED, "[2]"), successor=heir)
        assert (closed.status, closed.continued_as) == (ExecutionStatus.SUCCEEDED, heir)
        goes_on = store.find(heir)
        assert goes_on is not None
        assert (goes_on.function, goes_on.terms, goes_on.parent, goes_on.parent_operation) == ("order", Terms(60), parent.id, "i")
        assert (goes_on.cascade, goes_on.tenant, goes_on.trace) == (False, "t", "r")
        assert store.input(heir) == "[2]"
        assert [op.status for op in store.operations(parent.id)] == [Status.STARTED]
        run(store, goes_on, Outcome(OutcomeStatus.SUCCEEDED, "3"))
        assert [op.result for op in store.operations(parent.id)] == ["3"]

    def test_operations_and_bytes_are_counted(self, store: Store) -> None:
        header = live(store, "a", callback("c"), Update(id="s", type=Type.STEP, action=Action.SUCCEED, payload='"ä"'))
        assert (header.operations, header.stored) == (2, len("{}") + 4)
        answered = written(store, Answering(header.id, "c", "1234"))
        assert (answered.operations, answered.stored) == (2, 10)
        assert now_at(store, header) == answered

    def test_what_somebody_has_hosted_is_known_with_its_terms(self, store: Store) -> None:
        first, second = Hosted("order", "1", Terms(5, 6, 7, 8)), Hosted("order", "2", Terms())
        store.publish([first, second])
        store.publish([msgspec.structs.replace(second, terms=Terms(9))])
        assert list(store.hosted("order")) == [first, Hosted("order", "2", Terms(9))]
        assert list(store.hosted("absent")) == []

    def test_one_childs_end_spoils_no_other_write_of_the_batch(self, store: Store) -> None:
        parent, child = chained(store)
        claimed = written(store, claim(child, "here"))
        other = live(store, "other")
        done, refused, went_on = answers(
            store,
            settled(claimed, Outcome(OutcomeStatus.SUCCEEDED, "1")),
            settled(claimed, Outcome(OutcomeStatus.SUCCEEDED, "2")),
            Checkpoint(position(other), (callback("c"),)),
        )
        assert isinstance(done, Execution)
        assert isinstance(refused, Exception)
        assert not isinstance(went_on, Exception)
        assert [op.result for op in store.operations(parent.id)] == ["1"]
