"""The outbox. While there is a subscriber, every change of an execution's status and every quarantine becomes a signal, in the order of
commits. One runner at a time delivers the signals to a subscriber, and none is lost."""

import msgspec
import pytest

from holdfast.model.codec import failure_text
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, Quarantine, State
from holdfast.model.ids import Arn
from holdfast.model.life import Claimant
from holdfast.model.outside import Answering, Fire, Release, Stop
from holdfast.model.signals import StatusSignal
from holdfast.model.verbs import Started
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import OneHandle, Opening, TwoHandles
from holdfast.testing.stores.queue_writes import admitted, several
from holdfast.testing.stores.writes import (
    LEASE,
    OOPS,
    T0,
    after,
    answers,
    at,
    callback,
    checkpoint,
    claim,
    execution_succeeds,
    forgotten,
    id_at,
    live,
    settled,
    started,
    step,
    suspended,
    wait,
    wanted,
    written,
)

X = ExecutionStatus
ALL = 10_000


def taken(store: Store, subscriber: str = "billing", runner: str = "here") -> int:
    """Let `runner` become the deliverer for the subscriber. Returns the number of the last signal that the subscriber got."""
    cursor = store.take_delivery(subscriber, runner)
    assert cursor is not None
    return cursor


def told(store: Store, subscriber: str = "billing", runner: str = "here") -> list[StatusSignal]:
    """Let `runner` become the deliverer for the subscriber, and return the signals that the subscriber has not got yet."""
    found = store.signals(subscriber, runner, taken(store, subscriber, runner), ALL)
    assert found is not None
    numbers = [signal.number for signal in found]
    assert numbers == sorted(set(numbers))
    return list(found)


def said(signals: list[StatusSignal]) -> list[tuple[str, X]]:
    """For each signal: the name of its execution, and the new status."""
    return [(signal.name, signal.status) for signal in signals]


class OutboxSuite(OneHandle):
    """Tests: signals and their subscribers. They need one handle of the store."""

    # --- signals

    def test_a_quarantine_is_told_with_its_reason_and_is_no_other_status(self, store: Store) -> None:
        store.subscribe("billing")
        header = live(store, "a")
        aside = written(store, settled(header, Outcome(OutcomeStatus.MISMATCHED, None, OOPS)), at(2))
        assert (aside.state, aside.status, aside.quarantine) == (State.QUARANTINED, X.RUNNING, Quarantine.REPLAY_MISMATCH)
        assert store.history(aside.id, (aside.quarantine_event or 0) - 1, 1)[0].event.payload == failure_text(OOPS)
        released = written(store, Release(aside.id), at(3))
        assert (released.state, released.quarantine, released.quarantine_event) == (State.READY, None, None)
        _, second = told(store)
        assert (second.status, second.quarantine, second.quarantined_at) == (X.RUNNING, Quarantine.REPLAY_MISMATCH, at(2))
        assert [signal.quarantine for signal in told(store)] == [None, Quarantine.REPLAY_MISMATCH], "a release makes no signal"

    def test_an_execution_tells_of_its_start_and_of_its_end(self, store: Store) -> None:
        store.subscribe("billing")
        header = started(store, "a", now=at(1))
        written(store, Stop(header.id), at(2))
        arn = str(Arn(header.function, header.version, header.name, header.id))
        same = {"arn": arn, "name": "a", "function": "order", "version": "$LATEST", "started_at": at(1)}
        first, second = told(store)
        assert first == StatusSignal(number=first.number, status=X.RUNNING, ended_at=None, **same)  # type: ignore[arg-type]
        assert second == StatusSignal(number=second.number, status=X.STOPPED, ended_at=at(2), **same)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "outcome, status", [(OutcomeStatus.SUCCEEDED, X.SUCCEEDED), (OutcomeStatus.FAILED, X.FAILED)], ids=["succeeds", "fails"]
    )
    def test_every_ending_is_told(self, store: Store, outcome: OutcomeStatus, status: X) -> None:
        store.subscribe("billing")
        written(store, settled(live(store, "a"), Outcome(outcome, "1")))
        assert said(told(store)) == [("a", X.RUNNING), ("a", status)]

    def test_a_timeout_is_told(self, store: Store) -> None:
        store.subscribe("billing")
        header = suspended(store, "a", callback("c"))
        written(store, Fire(header.id), header.deadline)
        assert said(told(store)) == [("a", X.RUNNING), ("a", X.TIMED_OUT)]

    def test_what_does_not_change_the_status_is_not_told(self, store: Store) -> None:
        store.subscribe("billing")
        header = suspended(store, "a", step("s"), callback("c"), wait("w"))
        written(store, Answering(header.id, "c", "1"), at(2))
        written(store, claim(header, "here"), at(2))
        batch = (wanted("a"), wanted("a", "other input"), Stop(id_at(T0)), checkpoint(header, step("t")))
        committed = store.commit(batch, at(3))
        assert not committed.signalled
        assert said(told(store)) == [("a", X.RUNNING)]

    def test_an_end_that_is_written_before_its_invocation_returns_is_told_once(self, store: Store) -> None:
        store.subscribe("billing")
        header = live(store, "a")
        after(store, header, execution_succeeds("1"))
        assert said(told(store)) == [("a", X.RUNNING), ("a", X.SUCCEEDED)]
        written(store, settled(header, Outcome(OutcomeStatus.SUCCEEDED, "")))
        assert len(told(store)) == 2

    def test_an_end_and_its_invocations_return_in_one_batch_are_told_once(self, store: Store) -> None:
        store.subscribe("billing")
        header = live(store, "a")
        answers(store, checkpoint(header, execution_succeeds("1")), settled(header, Outcome(OutcomeStatus.SUCCEEDED, "")))
        assert said(told(store)) == [("a", X.RUNNING), ("a", X.SUCCEEDED)]

    def test_an_execution_made_and_closed_in_one_batch_tells_of_both(self, store: Store) -> None:
        store.subscribe("billing")
        asked = msgspec.structs.replace(wanted("a"), by=Claimant("here", "here-1"))
        other = wanted("b")
        committed = store.commit((asked, other, Stop(asked.header.id), Stop(other.header.id), Stop(asked.header.id)), T0)
        assert committed.signalled
        assert said(told(store)) == [("a", X.RUNNING), ("b", X.RUNNING), ("a", X.STOPPED), ("b", X.STOPPED)]

    @pytest.mark.parametrize("count", [1, 5, 150, 300])
    def test_signals_are_numbered_in_the_order_of_the_batch(self, store: Store, count: int) -> None:
        store.subscribe("billing")
        answers(store, *(wanted(f"n{n:03}") for n in range(count)))
        assert said(told(store)) == [(f"n{n:03}", X.RUNNING) for n in range(count)]

    def test_what_a_write_brings_to_others_is_told_after_it(self, store: Store) -> None:
        store.subscribe("billing")
        parent = live(store, "parent")
        child = started(store, "child", parent=parent.id, parent_operation="op")
        written(store, Stop(parent.id))
        assert said(told(store)) == [("parent", X.RUNNING), ("child", X.RUNNING), ("parent", X.STOPPED), ("child", X.STOPPED)]
        assert child.cascade

    def test_without_subscribers_nothing_is_written(self, store: Store) -> None:
        committed = store.commit((wanted("a"),), T0)
        assert not committed.signalled
        store.subscribe("billing")
        assert told(store) == []
        assert store.commit((wanted("b"),), T0).signalled
        assert said(told(store)) == [("b", X.RUNNING)]
        store.unsubscribe("billing")
        assert not store.commit((wanted("c"),), T0).signalled

    # --- subscribers and their cursors

    def test_a_subscriber_begins_with_what_happens_next(self, store: Store) -> None:
        store.subscribe("billing")
        started(store, "before")
        store.subscribe("mail")
        started(store, "after")
        assert said(told(store, "mail")) == [("after", X.RUNNING)]
        assert said(told(store, "billing")) == [("before", X.RUNNING), ("after", X.RUNNING)]

    def test_a_subscriber_that_is_known_stays_where_it_was(self, store: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        store.subscribe("billing")
        assert said(told(store)) == [("a", X.RUNNING)]

    def test_each_subscriber_has_a_cursor_of_its_own(self, store: Store) -> None:
        store.subscribe("billing")
        store.subscribe("mail")
        started(store, "a")
        started(store, "b")
        first, second = told(store)
        assert store.delivered("billing", "here", first.number)
        assert told(store) == [second]
        assert told(store, "mail") == [first, second]

    def test_signals_are_read_in_pages(self, store: Store) -> None:
        store.subscribe("billing")
        for n in range(5):
            started(store, f"n{n}")
        cursor, seen = taken(store), list[tuple[str, X]]()
        while page := store.signals("billing", "here", cursor, 2):
            assert len(page) <= 2
            seen += said(list(page))
            assert len(seen) <= 5, "some were told twice"
            cursor = page[-1].number
        assert seen == [(f"n{n}", X.RUNNING) for n in range(5)]

    def test_kept_signals_are_told_to_anybody_in_pages(self, store: Store) -> None:
        store.subscribe("billing")
        for name in "abc":
            started(store, name)
        first, second, third = store.kept_signals(0, ALL)
        assert [signal.name for signal in (first, second, third)] == ["a", "b", "c"]
        assert list(store.kept_signals(first.number, 1)) == [second]
        store.unsubscribe("billing")
        forgotten(store)
        assert list(store.kept_signals(0, ALL)) == []

    def test_a_cursor_never_goes_back(self, store: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        started(store, "b")
        first, second = told(store)
        assert store.delivered("billing", "here", second.number)
        assert store.delivered("billing", "here", first.number)
        assert told(store) == []

    def test_a_number_is_never_used_again(self, store: Store) -> None:
        store.subscribe("billing")
        seen = list[int]()
        for n in range(3):
            started(store, f"n{n}")
            (signal,) = told(store)
            seen.append(signal.number)
            store.delivered("billing", "here", signal.number)
            forgotten(store)
        store.unsubscribe("billing")
        store.subscribe("billing")
        started(store, "last")
        assert [*seen, told(store)[0].number] == sorted({*seen, told(store)[0].number})

    def test_a_forgotten_subscriber_gets_nothing_and_begins_anew(self, store: Store) -> None:
        store.subscribe("billing")
        store.subscribe("mail")
        started(store, "a")
        taken(store)
        store.unsubscribe("billing")
        assert store.take_delivery("billing", "here") is None
        assert store.signals("billing", "here", 0, ALL) is None
        assert not store.delivered("billing", "here", 1)
        store.subscribe("billing")
        assert told(store) == []
        assert said(told(store, "mail")) == [("a", X.RUNNING)]

    def test_an_unknown_subscriber_cannot_be_delivered_to(self, store: Store) -> None:
        assert store.take_delivery("absent", "here") is None
        assert store.signals("absent", "here", 0, ALL) is None
        assert not store.delivered("absent", "here", 1)
        store.unsubscribe("absent")

    # --- one deliverer at a time

    def test_one_runner_delivers_at_a_time(self, store: Store) -> None:
        store.subscribe("billing")
        store.join("there", LEASE)
        assert store.take_delivery("billing", "here") == store.take_delivery("billing", "here"), "it may be taken again"
        assert store.take_delivery("billing", "there") is None
        store.leave("here")
        assert store.take_delivery("billing", "there") is not None
        store.join("here", LEASE)
        assert store.take_delivery("billing", "here") is None

    def test_a_runner_that_left_delivers_no_more(self, store: Store) -> None:
        store.subscribe("billing")
        store.join("there", LEASE)
        taken(store, runner="there")
        store.leave("there")
        assert store.take_delivery("billing", "here") is not None

    def test_a_runner_silent_past_its_lease_loses_the_delivery(self, store: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        (signal,) = told(store)
        store.dead(LEASE - 1)
        assert store.take_delivery("billing", "there") is None
        store.dead(LEASE)
        assert store.take_delivery("billing", "there") is not None
        assert not store.delivered("billing", "here", signal.number)
        assert store.signals("billing", "here", 0, ALL) is None
        assert told(store, runner="there") == [signal], "the late confirmation of the first deliverer changed nothing"

    def test_a_runner_that_lost_the_delivery_may_get_it_back_with_what_happened_since(self, store: Store) -> None:
        store.subscribe("billing")
        store.join("there", LEASE)
        started(store, "a")
        started(store, "b")
        first, second = told(store)
        store.leave("here")
        taken(store, runner="there")
        store.delivered("billing", "there", first.number)
        store.leave("there")
        store.join("here", LEASE)
        assert told(store) == [second]

    # --- signals that no subscriber needs

    def test_signals_that_every_subscriber_has_had_are_removed_a_few_at_a_time(self, store: Store) -> None:
        store.subscribe("billing")
        store.subscribe("mail")
        for n in range(10):
            started(store, f"n{n}")
        signals = told(store)
        store.delivered("billing", "here", signals[-1].number)
        assert forgotten(store) == 0
        taken(store, "mail")
        store.delivered("mail", "here", signals[6].number)
        assert forgotten(store, limit=3) >= 3
        assert told(store, "mail") == signals[7:]
        store.unsubscribe("mail")
        assert forgotten(store, limit=2) >= 2
        assert store.signals("billing", "here", 0, ALL) == []

    def test_without_subscribers_all_signals_are_removed(self, store: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        store.unsubscribe("billing")
        assert forgotten(store) > 0
        assert forgotten(store) == 0


class SharedOutboxSuite(TwoHandles):
    """Tests: signals of several processes. They need two handles of the store."""

    def test_a_subscriber_of_the_other_is_told_of_our_writes(self, store: Store, other: Store) -> None:
        started(store, "before")
        other.subscribe("billing")
        started(store, "a")
        other.unsubscribe("billing")
        assert not store.commit((wanted("b"),), T0).signalled
        other.subscribe("mail")
        started(store, "c")
        assert said(told(other, "mail", "there")) == [("c", X.RUNNING)]

    def test_a_subscriber_of_the_other_is_told_of_our_next_admission_and_of_our_next_end(self, store: Store, other: Store) -> None:
        (job,) = several(store, "job")
        header = started(store, "a")
        other.subscribe("billing")
        assert [one.id for one in admitted(store, 1)] == [job.id]
        assert said(told(other, "billing", "there")) == [("job", X.RUNNING)]
        other.unsubscribe("billing")
        started(store, "b")
        other.subscribe("mail")
        written(store, Stop(header.id))
        assert said(told(other, "mail", "there")) == [("a", X.STOPPED)]

    def test_signals_of_both_are_told_in_the_order_of_their_commits(self, store: Store, other: Store) -> None:
        store.subscribe("billing")
        headers = list[Execution]()
        for n in range(6):
            headers.append(started((store, other)[n % 2], f"n{n}"))
        for n in (3, 0, 5):
            written((store, other)[n % 2], Stop(headers[n].id))
        begun = [(f"n{n}", X.RUNNING) for n in range(6)]
        assert said(told(store)) == [*begun, ("n3", X.STOPPED), ("n0", X.STOPPED), ("n5", X.STOPPED)]

    def test_two_processes_take_a_delivery_once(self, store: Store, other: Store) -> None:
        store.subscribe("billing")
        assert store.take_delivery("billing", "here") is not None
        assert other.take_delivery("billing", "there") is None
        assert other.signals("billing", "there", 0, ALL) is None

    def test_a_process_that_is_gone_loses_the_delivery_when_it_is_found_dead(self, store: Store, other: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        (signal,) = told(other, runner="there")
        other.close()
        store.dead(T0)
        assert told(store) == [signal]

    def test_cursors_and_signals_are_there_after_reopening(self, opening: Opening, store: Store) -> None:
        store.subscribe("billing")
        started(store, "a")
        started(store, "b")
        first, second = told(store)
        store.delivered("billing", "here", first.number)
        store.close()
        later = opening("later")
        later.join("later", LEASE)
        later.dead(T0)
        later.subscribe("billing")
        assert told(later, runner="later") == [second]

    def test_a_batch_of_the_other_that_follows_a_subscription_at_once_is_told(self, store: Store, other: Store) -> None:
        """The list of subscribers is cached: the cache must not be older than the transaction that uses it."""
        for n in range(4):
            started(other, f"quiet{n}")
            store.subscribe(f"s{n}")
            (answer,) = answers(other, wanted(f"n{n}"))
            assert isinstance(answer, Started)
            assert said(told(store, f"s{n}")) == [(f"n{n}", X.RUNNING)]
            store.unsubscribe(f"s{n}")
