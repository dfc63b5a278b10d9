"""Settings of queues: what code declares, what an operator sets while executions run, and what a full queue answers."""

from typing import Any

import msgspec
import pytest

from holdfast.model.audit import Note, NoteFilter, NoteKind
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import OutcomeStatus, State
from holdfast.model.outside import Answering, Fire
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import Mode, QueueRow
from holdfast.model.rates import TOKENS, Rate
from holdfast.model.verbs import Started
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import PROCESSES, Opening, TwoHandles
from holdfast.testing.stores.queue_writes import (
    MAIL,
    admitted,
    admitted_names,
    check_counts,
    claimant,
    counted,
    declare,
    ended,
    enqueued,
    queued,
    running,
    several,
)
from holdfast.testing.stores.queues import QueueHandle
from holdfast.testing.stores.races import ROUNDS, together
from holdfast.testing.stores.writes import DAY, LEASE, ORDER, T0, answers, at, callback, forgotten, now_at, written


def found(store: Store, queue: str = MAIL) -> QueueRow:
    """The queue of this name. The test fails if the store does not have it."""
    row = store.queue(queue)
    assert row is not None
    return row


def operate(store: Store, mode: Mode = Mode.OPEN, **operator: object) -> bool:
    """Set the mode and the operator's settings of the queue `mail`, in place of those before. Returns whether they were written."""
    row = store.queue(MAIL) or QueueRow(name=MAIL)
    return store.set_queue(msgspec.structs.replace(row, operator=operator, mode=mode))


def full(store: Store, now: int = T0) -> QueueFull:
    """Enqueue one more execution, which the store must refuse, and return the refusal. The test fails if the refused execution left
    anything in the store."""
    (refused,) = answers(store, queued("one more", now=now, by=claimant(), tenant="of its own"), now=now)
    assert isinstance(refused, QueueFull)
    assert (store.find_named("order", "one more"), refused.code) == (None, "overloaded")
    assert [lane.key for lane in store.lanes(MAIL, limit=1000) if "own" in lane.key] == []
    return refused


class QueueSettingSuite(QueueHandle):
    """Tests: depth, modes and limits that change. They need one handle of the store."""

    # --- what is declared and what is set

    def test_what_the_operator_sets_wins_member_by_member_and_both_are_kept(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 5}, ttl_seconds=60)
        assert operate(mail, limits={"at_once": 1})
        declare(mail, limits={"at_once": 9}, ttl_seconds=70)
        row = found(mail)
        assert (row.declared["limits"], row.operator) == ({"at_once": 9}, {"limits": {"at_once": 1}})
        assert (row.settings().limits.at_once, row.settings().ttl_seconds) == (1, 70)
        several(mail, "a", "b")
        assert admitted_names(mail, 9) == ["a"]
        assert operate(mail)
        assert admitted_names(mail, 9) == ["b"]

    def test_a_setting_that_another_change_came_before_is_not_written(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 5})
        row = found(mail)
        assert mail.set_queue(msgspec.structs.replace(row, mode=Mode.PAUSED))
        assert not mail.set_queue(msgspec.structs.replace(row, operator={"ttl_seconds": 1}))
        assert (found(mail).mode, found(mail).operator, found(mail).revision) == (Mode.PAUSED, {}, row.revision + 1)

    def test_a_setting_that_is_none_is_refused_and_changes_nothing(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 5})
        for bad in ({"limits": {"at_once": 0}}, {"nothing": 1}, {"limits": {"rates": ["often"]}}, {"per_key": {"rates": ["1/s", "2/s"]}}):
            with pytest.raises(InvalidParameter):
                operate(mail, **bad)
        assert (found(mail).operator, found(mail).revision) == ({}, 0)

    def test_a_setting_that_is_not_written_makes_no_queue(self, mail: Store) -> None:
        assert not mail.set_queue(QueueRow(name="absent", mode=Mode.PAUSED, revision=1))
        assert mail.queue("absent") is None
        assert mail.set_queue(QueueRow(name="absent", mode=Mode.PAUSED))
        assert mail.queue("absent") is not None

    def test_the_notes_of_an_operator_are_written_with_the_setting(self, mail: Store) -> None:
        note = Note(at=T0, kind=NoteKind.DECISION, who="me", what="queue", on=MAIL, origin="", outcome="done", expires_at=T0 + DAY)
        assert mail.set_queue(QueueRow(name=MAIL, mode=Mode.PAUSED), [note])
        assert not mail.set_queue(QueueRow(name=MAIL, revision=7), [note])
        assert [noted.note for noted in mail.audit(NoteFilter())] == [note]

    def test_a_declaration_is_no_change_the_second_time(self, mail: Store) -> None:
        for _ in range(2):
            declare(mail, limits={"at_once": 5})
        assert found(mail).revision == 0
        declare(mail, limits={"at_once": 6})
        assert found(mail).revision == 1
        assert [row.name for row in mail.queues()] == [MAIL]

    # --- limits that change

    def test_limits_may_change_while_executions_hold_slots(self, mail: Store) -> None:
        made = [running(mail, name, tenant=name[0]) for name in ("x1", "x2", "y1")]
        several(mail, "x3", tenant="x")
        several(mail, "y2", tenant="y")
        assert operate(mail, limits={"at_once": 3}, per_tenant={"at_once": 1})
        assert admitted(mail, 9) == []
        ended(mail, made[0])
        assert admitted(mail, 9) == [], "the tenant still holds one"
        ended(mail, made[2])
        assert admitted_names(mail, 9) == ["y2"]
        assert operate(mail, limits={"at_once": 3}, per_tenant={"at_once": 2})
        assert admitted_names(mail, 9) == ["x3"]

    def test_a_rate_that_is_changed_counts_from_now_on(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["1/h"]})
        several(mail, *(f"n{n}" for n in range(5)))
        assert [len(admitted(mail, 9, at(seconds))) for seconds in (0, 1)] == [1, 0]
        assert operate(mail, limits={"rates": ["1/s"]})
        assert [len(admitted(mail, 9, at(seconds))) for seconds in (0.5, 1, 1.5, 2)] == [0, 1, 0, 1]
        assert operate(mail, limits={"rates": []})
        assert len(admitted(mail, 9, at(2))) == 2

    def test_a_limit_that_is_declared_later_finds_what_runs(self, mail: Store) -> None:
        running(mail, "a")
        several(mail, "b")
        declare(mail, limits={"at_once": 1})
        assert admitted(mail, 9) == []

    # --- modes

    def test_a_paused_queue_takes_executions_and_admits_none(self, mail: Store) -> None:
        assert operate(mail, Mode.PAUSED)
        assert [header.state for header in several(mail, "a", "b", by=claimant())] == [State.QUEUED] * 2
        several(mail, "beside", queue="beside")
        assert admitted_names(mail, 9) == ["beside"]
        assert operate(mail)
        assert admitted_names(mail, 9) == ["a", "b"]

    def test_a_pause_leaves_alone_what_runs(self, mail: Store) -> None:
        header = running(mail, "a", callback("c"))
        left = ended(mail, header, OutcomeStatus.PENDING)
        assert operate(mail, Mode.PAUSED)
        assert written(mail, Answering(left.id, "c", "1")).state is State.READY
        assert list(mail.claimable(ORDER, (), T0, 9)) == [left.id]

    def test_a_draining_queue_admits_what_waits_and_takes_no_more(self, mail: Store) -> None:
        (first,) = several(mail, "a")
        assert operate(mail, Mode.DRAINING)
        assert full(mail).retry_after_seconds > 0
        assert answers(mail, queued("a")) == [Started(first, False)]
        assert admitted_names(mail, 9) == ["a"]

    # --- depth

    def test_a_queue_takes_no_more_than_may_wait(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1}, most_waiting=2)
        said = answers(mail, *(queued(name, by=claimant()) for name in "abcd"))
        assert [isinstance(answer, QueueFull) for answer in said] == [False, False, False, True]
        assert full(mail).retry_after_seconds == 60
        assert len(admitted(mail, 9)) == 0
        assert counted(mail)[MAIL] == (1, 2)

    def test_when_to_try_again_follows_from_how_fast_the_queue_drains(self, mail: Store) -> None:
        declare(mail, most_waiting=60)
        enqueued(mail, *(queued(f"n{n}") for n in range(60)))
        assert len(admitted(mail, 30)) == 30
        enqueued(mail, *(queued(f"m{n}") for n in range(30)))
        assert full(mail).retry_after_seconds == 2
        assert full(mail, at(30)).retry_after_seconds == 4
        assert full(mail, at(60)).retry_after_seconds == 60

    def test_a_queue_takes_no_more_while_one_has_waited_too_long(self, mail: Store) -> None:
        declare(mail, oldest_seconds=10)
        several(mail, "a")
        several(mail, "b", now=at(10))
        assert full(mail, at(10.001)).retry_after_seconds == 60
        assert admitted_names(mail, 1, at(11)) == ["a"]
        several(mail, "c", now=at(11))

    def test_what_woke_up_has_not_waited_since_it_was_enqueued(self, mail: Store) -> None:
        declare(mail, oldest_seconds=10, waiting="free")
        left = ended(mail, running(mail, "a", callback("c")), OutcomeStatus.PENDING)
        (late,) = several(mail, "late", delay_ms=90_000)
        assert written(mail, Answering(left.id, "c", "1"), at(100)).state is State.QUEUED
        written(mail, Fire(late.id), at(100))
        assert mail.queue_state(MAIL, at(100)).oldest_at == at(90)
        several(mail, "b", now=at(100))

    def test_the_counts_of_a_tenant_are_its_own(self, mail: Store) -> None:
        longest = "ü" * 200  # its part of a lane is cut
        tenants = ("acme", longest, None)
        for tenant in tenants:
            parked = ended(mail, running(mail, f"parked {tenant!r:.9}", tenant=tenant), OutcomeStatus.FAILED)
            assert [header.id for header in mail.parked(MAIL, tenant=tenant or "default")] == [parked.id]
            assert [header.id for header in mail.parked(None, tenant=tenant or "default")] == [parked.id]
            running(mail, f"runs {tenant!r:.9}", tenant=tenant)
        for tenant in tenants:
            several(mail, *(f"{word} {tenant!r:.9}" for word in ("a", "b")), tenant=tenant, key="k")
            several(mail, f"c {tenant!r:.9}", tenant=tenant)
            several(mail, f"late {tenant!r:.9}", tenant=tenant, delay_ms=1000)
        for tenant in ("acme", longest, "default"):
            told = mail.queue_state(MAIL, T0, tenant)
            assert (told.waiting, told.held, told.delayed, told.parked) == (3, 1, 1, 1)
            assert told.per_minute > 0
        whole = mail.queue_state(MAIL, T0)
        assert (whole.waiting, whole.held, whole.delayed, whole.parked) == (9, 3, 3, 3)
        none = mail.queue_state(MAIL, T0, "absent")
        assert (none.waiting, none.held, none.delayed, none.parked, none.per_minute) == (0, 0, 0, 0, 0)
        assert list(mail.parked(MAIL, tenant="absent")) == []
        seen = {tenant: mail.waiting_in([MAIL, "absent"], tenant) for tenant in ("acme", longest, "default", None, "absent")}
        assert seen == {"acme": {MAIL: 3}, longest: {MAIL: 3}, "default": {MAIL: 3}, None: {MAIL: 9}, "absent": {}}

    def test_a_refused_redrive_leaves_the_parked_one(self, mail: Store) -> None:
        declare(mail, most_waiting=1)
        parked = ended(mail, running(mail, "a"), OutcomeStatus.FAILED)
        several(mail, "b")
        (refused,) = answers(mail, queued("a", again=True))
        assert isinstance(refused, QueueFull)
        assert (now_at(mail, parked), [h.id for h in mail.parked(MAIL)]) == (parked, [parked.id])

    def test_the_lanes_of_a_function_follow_its_rate_and_what_is_used_of_it_stays_used(self, mail: Store) -> None:
        hourly, tokens = Rate(1, 3600, 1), Rate(100, 1, 100, TOKENS)
        several(mail, "a", "b", "c", "d", "e", rates=(hourly, tokens), key="k")
        assert several(mail, "other", tenant="z")[0].state is State.QUEUED
        assert mail.set_rate("order", hourly)  # the lane of `other` has no limit
        assert not mail.set_rate("order", hourly)
        assert not mail.set_rate("elsewhere", hourly)
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (0, 1800)] == [["a", "other"], []]
        assert mail.set_rate("order", Rate(1, 60, 1))
        assert mail.has_open_lane(ORDER, at(1800))
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (1800, 1801, 1860)] == [["b"], [], ["c"]]
        assert mail.set_rate("order", None)
        assert admitted_names(mail, 9, at(1860)) == ["d", "e"]
        assert not mail.set_rate("order", None)
        check_counts(mail)

    # --- retention

    def test_lanes_in_which_nothing_was_for_long_are_forgotten_with_their_rates(self, mail: Store) -> None:
        declare(mail, per_tenant={"rates": ["1/h"]})
        ended(mail, running(mail, "a", tenant="x", key="k"))
        (delayed,) = several(mail, "later", tenant="y", delay_ms=9 * DAY)
        kept = ended(mail, running(mail, "b", callback("c"), tenant="z"), OutcomeStatus.PENDING)
        assert forgotten(mail, at(60)) <= 2
        assert [lane.key for lane in mail.lanes(MAIL) if "=x" in lane.key] != []
        for hours in (2, 4, 6):
            forgotten(mail, at(hours * 3600))
        assert {lane.key.split("/")[1] for lane in mail.lanes(MAIL) if lane.key != MAIL} == {"tenant=y", "tenant=z"}
        assert running(mail, "again", tenant="x", key="k", now=at(6 * 3600)).state is State.RUNNING
        assert several(mail, "too fast", tenant="x", now=at(6 * 3600), by=claimant())[0].state is State.QUEUED
        written(mail, Fire(delayed.id), T0 + 9 * DAY)
        assert kept.place is not None
        assert sorted(admitted_names(mail, 9, T0 + 9 * DAY)) == ["later", "too fast"]


class SharedQueueSuite(TwoHandles):
    """Tests: queues of several processes. They need a handle for each process."""

    def test_what_one_enqueues_another_admits_and_sees_settled(self, store: Store, other: Store) -> None:
        declare(store, limits={"at_once": 1})
        several(store, "a", "b")
        (header,) = admitted(other, 9, runner="there")
        assert admitted(store, 9) == []
        ended(other, header)
        assert admitted_names(store, 9) == ["b"]
        check_counts(store)

    def test_queues_and_lanes_are_there_after_a_restart(self, store: Store, opening: Opening) -> None:
        declare(store, limits={"rates": ["1/m"]})
        several(store, "a", "b", by=claimant())
        store.close()
        later = opening("later")
        later.join("later", LEASE)
        assert later.queue_state(MAIL, T0).waiting == 1
        assert [admitted_names(later, 9, at(seconds)) for seconds in (59, 60)] == [[], ["b"]]
        check_counts(later)

    @pytest.mark.parametrize("limits", [{"limits": {"at_once": 3}}, {"per_tenant": {"at_once": 2}}, {"limits": {"rates": ["20/h"]}}])
    def test_of_many_processes_that_enqueue_and_admit_at_once_none_goes_beyond_a_limit(
        self, stores: list[Store], limits: dict[str, Any]
    ) -> None:
        declare(stores[0], MAIL, **limits)

        def act(n: int, store: Store) -> list[str]:
            taken = []
            for k in range(ROUNDS):
                if n % 2:
                    said = answers(store, *(queued(f"{n}-{k}-{at}", tenant=f"t{at}", id=made(n, k, at)) for at in range(2)))
                    assert not any(isinstance(answer, HoldfastError) for answer in said)
                for header in admitted(store, 2, runner=f"p{n}"):
                    lanes = {lane.key: lane for lane in store.lanes(MAIL, limit=100)}
                    assert all(lane.at_once is None or lane.held <= lane.at_once for lane in lanes.values())
                    taken.append(ended(store, header).id)
            return taken

        ended_ids = [execution for taken in together(stores, act) for execution in taken]
        assert len(ended_ids) == len(set(ended_ids))
        while left := admitted(stores[0], 9):
            ended_ids += [ended(stores[0], header).id for header in left]
        assert len(ended_ids) == (20 if "rates" in str(limits) else 2 * ROUNDS * PROCESSES // 2)
        check_counts(stores[0])


def made(n: int, k: int, place: int) -> str:
    """An id that no other thread makes: the generator of ids must not be used by several threads."""
    return f"019b76da-a800-7{n:03x}-8{k:03x}-{place:012x}"
