"""How executions of a queue end, wait and return: on every path, the slot of an execution is given back exactly once."""

import contextlib
from collections.abc import Callable

import msgspec
import pytest

from holdfast.model.admission import Same
from holdfast.model.codec import loads
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms
from holdfast.model.operations import Failure, Status
from holdfast.model.outside import Answering, Fire, Release, Stop
from holdfast.model.verbs import Claim, Started
from holdfast.store.seam import Filter, Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.chained_writes import birth, invoking
from holdfast.testing.stores.queue_writes import (
    MAIL,
    admitted,
    admitted_names,
    claimant,
    committed,
    counted,
    declare,
    ended,
    enqueued,
    queued,
    running,
    several,
)
from holdfast.testing.stores.queues import QueueHandle
from holdfast.testing.stores.writes import (
    LEASE,
    OOPS,
    ORDER,
    T0,
    after,
    answers,
    at,
    callback,
    claim,
    execution_succeeds,
    id_at,
    live,
    now_at,
    settled,
    started,
    wait,
    written,
)

LATE = at(36_000)
End = Callable[[Store, Execution], object]


def continued(store: Store, header: Execution, now: int = T0, successor: str | None = None) -> Execution:
    """End an execution as continued, and return the execution that continues it. `successor` is the id that this new execution gets; None:
    a random id."""
    asked = settled(header, Outcome(OutcomeStatus.CONTINUED, "{}"))
    written(store, msgspec.structs.replace(asked, successor=successor or id_at(now)), now)
    heir = store.find(now_at(store, header).continued_as or "")
    assert heir is not None
    return heir


def cascaded(store: Store, header: Execution) -> None:
    """Stop the execution that invoked this one. This stops this one, too."""
    assert header.parent is not None
    written(store, Stop(header.parent))


def closed_early(store: Store, header: Execution) -> None:
    """Close an execution by an update, and then let its invocation return."""
    left = after(store, header, execution_succeeds("1"))
    assert counted(store)[MAIL][0] == 0, "the slot is free as soon as the status is closed"
    written(store, settled(left, Outcome(OutcomeStatus.SUCCEEDED)))


def taken_over(store: Store, header: Execution) -> None:
    """Let another runner take over the execution, and end it there."""
    left = written(store, claim(header, "there", "here"))
    assert counted(store)[MAIL][0] == 1, "a takeover keeps the slot"
    ended(store, left)


def killed(store: Store, header: Execution) -> None:
    """Let the runners of this execution die, one after another, until it is quarantined."""
    while header.state is not State.QUARANTINED:
        if header.state is State.RUNNING:
            header = written(store, Claim(header.id, claimant(), frozenset({"here"}), alone=True), header.ready_at)
        else:
            header = written(store, Claim(header.id, claimant(), alone=True), header.ready_at)


PATHS: dict[str, End] = {
    "success": ended,
    "failure": lambda store, header: ended(store, header, OutcomeStatus.FAILED),
    "nothing pending": lambda store, header: ended(store, header, OutcomeStatus.PENDING),
    "update": closed_early,
    "stop": lambda store, header: written(store, Stop(header.id)),
    "two stops": lambda store, header: answers(store, Stop(header.id), Stop(header.id), settled(header, Outcome(OutcomeStatus.FAILED))),
    "timeout": lambda store, header: written(store, Fire(header.id), LATE),
    "late checkpoint": lambda store, header: after(store, header, wait("w"), now=LATE),
    "late takeover": lambda store, header: written(store, claim(header, "there", "here"), LATE),
    "takeover": taken_over,
    "mismatch": lambda store, header: ended(store, header, OutcomeStatus.MISMATCHED),
    "deaths": killed,
    "cascade": cascaded,
    "replace": lambda store, header: enqueued(store, queued(header.name, same=Same.REPLACE, queue="beside")),
}  # fmt: skip


class QueueEndSuite(QueueHandle):
    """Tests: closing paths, waiting, delays and names. They need one handle of the store."""

    # --- every path gives the slot back

    @pytest.mark.parametrize("path", PATHS)
    def test_every_end_gives_the_slot_back_exactly_once(self, mail: Store, path: str) -> None:
        declare(mail, limits={"at_once": 1})
        parent = live(mail, "parent")
        header = running(mail, "a", parent=parent.id, parent_operation="op", terms=Terms(36_000))
        assert counted(mail)[MAIL] == (1, 0)
        several(mail, "next")
        assert admitted(mail, 1) == []
        PATHS[path](mail, header)
        assert counted(mail)[MAIL] == (0, 1)
        assert [name for name in admitted_names(mail, 9, LATE) if name != "a"] == ["next"]

    def test_a_retry_and_an_interruption_keep_the_slot(self, mail: Store) -> None:
        header = ended(mail, running(mail, "a"), OutcomeStatus.CRASHED)
        assert (header.state, counted(mail)[MAIL]) == (State.READY, (1, 0))
        taken = written(mail, claim(header, "here"), header.ready_at)
        assert ended(mail, taken, OutcomeStatus.INTERRUPTED, now=header.ready_at).state is State.READY
        assert counted(mail)[MAIL] == (1, 0)

    def test_continue_as_new_keeps_the_slot_and_the_place(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1})
        header = running(mail, "a")
        several(mail, "next")
        heir = continued(mail, header, at(5))
        assert (heir.state, heir.place) == (State.READY, header.place)
        assert counted(mail)[MAIL] == (1, 1)
        assert admitted(mail, 1, at(5)) == []
        assert list(mail.claimable(ORDER, (), at(5), 9)) == [heir.id]
        ended(mail, written(mail, claim(heir, "here"), at(5)), now=at(6))
        assert admitted_names(mail, 1, at(6)) == ["next"]

    def test_a_start_that_is_taken_back_takes_its_slot_and_its_rate_back(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1, "rates": ["1/h"]})
        held = running(mail, "a")
        twin = queued("b", id=held.id, by=claimant())
        again, other = answers(mail, twin, queued("c"))
        assert not isinstance(again, Started)
        assert isinstance(other, Started)
        assert counted(mail)[MAIL] == (1, 1)

    def test_units_are_settled_once_over_all_that_continue_an_execution(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["1000 tokens/s"]})
        header = running(mail, "a", units=1000)
        asked = settled(header, Outcome(OutcomeStatus.CONTINUED, "{}", used=400))
        written(mail, msgspec.structs.replace(asked, successor=id_at(T0)))
        heir = now_at(mail, header).continued_as
        assert heir is not None
        taken = written(mail, Claim(heir, claimant()))
        several(mail, "b", units=1000)
        ended(mail, taken, used=300)
        assert [admitted_names(mail, 1, at(seconds)) for seconds in (0.699, 0.7)] == [[], ["b"]]

    def test_an_execution_that_closed_early_still_tells_what_it_used(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["1000 tokens/s"]})
        left = after(mail, running(mail, "a", units=1000), execution_succeeds("1"))
        several(mail, "b", units=1000)
        over = written(mail, settled(left, Outcome(OutcomeStatus.SUCCEEDED, used=100, parked=True, cool_until=at(0.3))))
        assert (over.state, over.parked) == (State.CLOSED, True)
        assert [admitted_names(mail, 1, at(seconds)) for seconds in (0.1, 0.299, 0.3)] == [[], [], ["b"]]

    # --- quarantine and release

    def test_a_quarantined_execution_holds_no_slot_and_a_release_brings_it_back_to_its_lane(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1})
        header = running(mail, "a")
        several(mail, "b", now=at(1))
        aside = ended(mail, header, OutcomeStatus.MISMATCHED, now=at(2))
        assert (aside.state, counted(mail)[MAIL]) == (State.QUARANTINED, (0, 1))
        free = written(mail, Release(header.id), at(3))
        assert (free.state, free.place, counted(mail)[MAIL]) == (State.QUEUED, header.place, (0, 2))
        assert list(mail.claimable(ORDER, (), at(3), 9)) == []
        (back,) = admitted(mail, 9, at(3))
        assert (back.name, back.deadline, back.place) == ("a", header.deadline, header.place)

    # --- waiting

    def test_a_wait_holds_the_slot_unless_the_queue_says_otherwise(self, mail: Store) -> None:
        declare(mail, "free", limits={"at_once": 1}, waiting="free")
        holder = ended(mail, running(mail, "a", wait("w")), OutcomeStatus.PENDING)
        freed = ended(mail, running(mail, "b", wait("w"), queue="free"), OutcomeStatus.PENDING)
        assert [header.state for header in (holder, freed)] == [State.SUSPENDED] * 2
        assert (counted(mail)[MAIL], counted(mail, "free")) == ((1, 0), {})
        assert written(mail, Fire(holder.id), at(10)).state is State.READY
        assert written(mail, Fire(freed.id, claimant()), at(10)).state is State.QUEUED
        assert (counted(mail)[MAIL], counted(mail, "free")["free"]) == ((1, 0), (0, 1))
        (back,) = admitted(mail, 9, at(10))
        assert (back.id, back.epoch, back.place, back.deadline) == (freed.id, 2, freed.place, freed.deadline)

    def test_what_wakes_up_stands_where_it_stood(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1}, waiting="free")
        header = ended(mail, running(mail, "a", callback("c")), OutcomeStatus.PENDING, now=at(1))
        several(mail, "b", "c", now=at(1))
        (busy,) = admitted(mail, 9, at(1))
        assert busy.name == "b"
        assert written(mail, Answering(header.id, "c", "1"), at(2)).state is State.QUEUED
        assert admitted(mail, 9, at(2)) == []
        ended(mail, busy, now=at(3))
        (back,) = admitted(mail, 9, at(3))
        assert back.name == "a"
        assert [op.status for op in mail.operations(back.id)] == [Status.SUCCEEDED]

    def test_a_timer_that_is_due_at_the_admission_has_fired_in_it(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1}, waiting="free")
        header = ended(mail, running(mail, "a", wait("w", 10), callback("c")), OutcomeStatus.PENDING, now=at(1))
        written(mail, Answering(header.id, "c", "1"), at(2))
        (back,) = admitted(mail, 9, at(11))
        assert [op.status for op in mail.operations(back.id)] == [Status.SUCCEEDED] * 2
        assert back.due_at == back.deadline

    def test_what_waits_in_its_lane_again_still_times_out_and_never_expires(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1}, waiting="free", ttl_seconds=60)
        header = ended(mail, running(mail, "a", callback("c")), OutcomeStatus.PENDING)
        written(mail, Answering(header.id, "c", "1"), at(2))
        over = written(mail, Fire(header.id), at(3600))
        assert (over.status, over.parked, counted(mail)) == (ExecutionStatus.TIMED_OUT, True, {})

    # --- delay and time to live

    def test_a_delayed_execution_enters_its_lane_when_its_time_comes(self, mail: Store) -> None:
        (header,) = enqueued(mail, queued("a", delay_ms=60_000, by=claimant()))
        several(mail, "b")
        assert (header.state, counted(mail)[MAIL], mail.queue_state(MAIL, T0).delayed) == (State.DELAYED, (0, 1), 1)
        assert (mail.next_due(ORDER), list(mail.due(at(60), 9))) == (at(60), [header.id])
        assert written(mail, Fire(header.id), at(59)).state is State.DELAYED
        entered = written(mail, Fire(header.id), at(60))
        assert (entered.state, entered.due_at, counted(mail)[MAIL]) == (State.QUEUED, None, (0, 2))
        several(mail, "c", now=at(60))
        assert admitted_names(mail, 9, at(60)) == ["b", "a", "c"]

    def test_a_delayed_execution_can_be_stopped(self, mail: Store) -> None:
        (header,) = enqueued(mail, queued("a", delay_ms=60_000))
        assert written(mail, Stop(header.id), at(1)).status is ExecutionStatus.STOPPED
        assert (list(mail.due(at(99), 9)), counted(mail)) == ([], {})

    @pytest.mark.parametrize("by_timer", [True, False])
    def test_what_waits_longer_than_its_time_to_live_expires(self, mail: Store, by_timer: bool) -> None:
        declare(mail, ttl_seconds=60)
        (header,) = several(mail, "a", delay_ms=1000)
        header = written(mail, Fire(header.id), at(1))
        several(mail, "b", ttl_ms=90_000, now=at(2))
        assert list(mail.due(at(60.999), 9)) == []
        if by_timer:
            assert list(mail.due(at(61), 9)) == [header.id]
            written(mail, Fire(header.id), at(61))
            assert admitted_names(mail, 1, at(61)) == ["b"]
        else:
            done = committed(mail, 1, at(61))
            assert [h.name for h in done.answers if isinstance(h, Execution)] == ["b"]
            assert [h.id for h in done.followed] == [header.id]
            assert [change.header.status for change in done.changes] == [ExecutionStatus.STOPPED]
        over = now_at(mail, header)
        assert (over.status, over.state, over.parked) == (ExecutionStatus.STOPPED, State.CLOSED, False)
        assert loads(mail.result(over) or "")["ErrorType"] == "expired"

    def test_many_expired_ones_keep_nothing_behind_them_waiting(self, mail: Store) -> None:
        several(mail, *(f"old{n}" for n in range(40)), ttl_ms=1000)
        several(mail, "new")
        done = committed(mail, 1, at(2))
        assert ([h.name for h in done.answers if isinstance(h, Execution)], len(done.followed)) == (["new"], 40)

    def test_a_damaged_or_stopped_head_is_passed_in_the_same_batch(self, mail: Store) -> None:
        first, _ = several(mail, "a", "b")
        answers(mail, Stop(first.id))
        assert admitted_names(mail, 9) == ["b"]

    def test_an_expired_child_is_told_to_its_parent(self, mail: Store) -> None:
        parent = live(mail, "parent")
        born = msgspec.structs.replace(birth(parent), enqueue=queued("x", ttl_ms=1000).enqueue)
        parent = written(mail, invoking(parent, born))
        assert now_at(mail, born.header).state is State.QUEUED
        left = ended(mail, parent, OutcomeStatus.PENDING)
        done = committed(mail, 1, at(2))
        assert {header.id for header in done.followed} == {born.header.id, left.id}
        assert [op.status for op in mail.operations(left.id)] == [Status.STOPPED]

    # --- names

    def test_an_existing_execution_is_found_and_takes_no_place(self, mail: Store) -> None:
        (first,) = several(mail, "a")
        said = answers(mail, queued("a"), queued("a", '{"other":1}'))
        assert said[0] == Started(first, False)
        assert isinstance(said[1], ExecutionAlreadyStarted)
        assert counted(mail)[MAIL] == (0, 1)

    def test_a_second_one_is_refused_where_the_enqueue_asks_for_that(self, mail: Store) -> None:
        several(mail, "a")
        (refused,) = answers(mail, queued("a", same=Same.REFUSE))
        assert isinstance(refused, ExecutionAlreadyStarted)
        assert counted(mail)[MAIL] == (0, 1)

    @pytest.mark.parametrize("was", ["queued", "running", "suspended", "succeeded", "failed"])
    def test_a_replacement_stops_what_is_open_and_takes_its_name_and_its_slot(self, mail: Store, was: str) -> None:
        declare(mail, limits={"at_once": 1}, most_waiting=1)
        if was == "queued":
            running(mail, "busy")
            (old,) = several(mail, "a")
        else:
            old = running(mail, "a", callback("c"))
            if was != "running":
                how = {"suspended": OutcomeStatus.PENDING, "succeeded": OutcomeStatus.SUCCEEDED, "failed": OutcomeStatus.FAILED}
                old = ended(mail, old, how[was])
        (new,) = enqueued(mail, queued("a", '{"n":2}', same=Same.REPLACE, by=claimant(), now=at(5)), now=at(5))
        left = now_at(mail, old)
        over = {"succeeded": ExecutionStatus.SUCCEEDED, "failed": ExecutionStatus.FAILED}
        assert (left.status, left.superseded_by, left.parked) == (over.get(was, ExecutionStatus.STOPPED), new.id, False)
        assert (mail.find_named("order", "a"), new.state) == (new, State.QUEUED if was == "queued" else State.RUNNING)
        assert counted(mail)[MAIL] == ((1, 1) if was == "queued" else (1, 0))

    def test_failed_executions_are_parked_and_driven_again_under_their_name(self, mail: Store) -> None:
        declare(mail, "loose", parks=False)
        failed = ended(mail, running(mail, "a"), OutcomeStatus.FAILED, error=OOPS)
        told = ended(mail, running(mail, "b"), parked=True)
        ended(mail, running(mail, "c", queue="loose"), OutcomeStatus.FAILED)
        ended(mail, running(mail, "d"))
        written(mail, Stop(running(mail, "e").id, Failure("by hand")))
        assert (failed.status, told.status) == (ExecutionStatus.FAILED, ExecutionStatus.SUCCEEDED)
        assert [header.id for header in mail.parked(MAIL)] == [failed.id, told.id]
        assert [header.id for header in mail.parked(None, failed.id, 9)] == [told.id]
        assert mail.queue_state(MAIL, T0).parked == 2
        again = enqueued(mail, queued("a", again=True, now=at(9)), queued("b", again=True, now=at(9)), now=at(9))
        assert [now_at(mail, header).superseded_by for header in (failed, told)] == [header.id for header in again]
        assert (list(mail.parked(MAIL)), counted(mail)[MAIL]) == ([], (0, 2))
        assert admitted_names(mail, 9, at(9)) == ["a", "b"]

    # --- copies, and what is not in a queue

    def test_an_imported_copy_has_no_place_and_takes_no_slot(self, mail: Store) -> None:
        with contextlib.closing(SqliteStore(":memory:", "elsewhere")) as elsewhere:
            elsewhere.join("here", LEASE)
            open_ones = [running(elsewhere, "a"), *several(elsewhere, "b")]
            parked = ended(elsewhere, running(elsewhere, "c", queue="beside"), OutcomeStatus.FAILED)
            for header in (*open_ones, parked):
                copy = elsewhere.snapshot(header.id)
                assert copy is not None
                assert [mail.adopt(copy), mail.adopt(copy)] == [True, False]
        assert [(h.place, h.parked) for h in mail.list(Filter())] == [(None, False)] * 3
        assert (list(mail.lanes(MAIL)), list(mail.parked(None)), list(mail.queues())) == ([], [], [])

    def test_executions_without_a_queue_are_claimed_as_ever(self, mail: Store) -> None:
        several(mail, "queued")
        plain = started(mail, "plain", terms=Terms(60))
        assert list(mail.claimable(ORDER, (), T0, 9)) == [plain.id]
        assert (plain.place, [h.name for h in mail.list(Filter(queue=MAIL))]) == (None, ["queued"])
