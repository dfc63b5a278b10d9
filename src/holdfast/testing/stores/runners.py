"""Runners: which executions the store offers to a runner, which executions a runner holds, and when a runner counts as dead."""

from holdfast.model.clock import VirtualClock
from holdfast.model.errors import LeaseLost
from holdfast.model.execution import Outcome, OutcomeStatus, State
from holdfast.model.life import Claimant
from holdfast.model.verbs import Claim
from holdfast.store.seam import Store, Target
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.writes import (
    LEASE,
    OOPS,
    ORDER,
    SECOND,
    T0,
    after,
    answers,
    at,
    claim,
    execution_succeeds,
    live,
    settled,
    started,
    suspended,
    wait,
    written,
)


class RunnerSuite(OneHandle):
    """Tests: claims and leases. They need one handle of the store."""

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

    def test_a_suspect_is_offered_only_to_a_runner_with_nothing_else(self, store: Store) -> None:
        header, other = live(store, "suspect"), started(store, "other")
        written(store, claim(header, "there", "here"))
        taken = written(store, claim(header, "there", "there"))
        assert (taken.state, taken.deaths) == (State.READY, 2)
        assert list(store.claimable(ORDER, (), T0, 10)) == [other.id]
        assert store.suspect(ORDER, T0) == header.id
        assert store.suspect((Target("another", "1"),), T0) is None
        written(store, claim(other, "here"))
        assert store.next_due(ORDER) == header.deadline, "the runner is not woken for it again and again"

    def test_after_three_deaths_it_is_offered_again_when_its_time_has_come_and_then_alone(self, store: Store) -> None:
        header = live(store, "suspect")
        for runner, dead in (("there", "here"), ("there", "there")):
            written(store, claim(header, runner, dead))
        alone = Claim(header.id, Claimant("third", "third-1"), alone=True)
        taken = written(store, alone)
        aside = written(store, claim(taken, "here", "third"))
        minute = at(60)
        assert (aside.state, aside.deaths, aside.ready_at, aside.due_at) == (State.READY, 3, minute, minute)
        assert (store.suspect(ORDER, minute - 1), store.suspect(ORDER, minute)) == (None, header.id)
        assert list(store.claimable(ORDER, (), minute, 10)) == []
        assert store.next_due(ORDER) == minute, "a runner looks then"
        assert isinstance(answers(store, alone, now=minute - 1)[0], LeaseLost)
        assert written(store, alone, minute).state is State.RUNNING

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

    def test_a_tests_own_time_stays_what_it_is(self, store: Store) -> None:
        clock = VirtualClock()
        assert store.clock(clock) is clock
