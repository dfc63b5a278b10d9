"""The rate of a function: all its lanes of one tenant and one user share it, whatever their queue, key and version. Rates of queues are in
queues.py."""

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import OutcomeStatus, State
from holdfast.model.rates import TOKENS, Rate
from holdfast.store.seam import Filter, Store, Target
from holdfast.testing.stores.opened_stores import PROCESSES, TwoHandles
from holdfast.testing.stores.queue_settings import made
from holdfast.testing.stores.queue_writes import (
    MAIL,
    admitted,
    admitted_names,
    check_counts,
    claimant,
    declare,
    ended,
    enqueued,
    queued,
    running,
    several,
)
from holdfast.testing.stores.queues import QueueHandle
from holdfast.testing.stores.races import ROUNDS, together
from holdfast.testing.stores.writes import ORDER, answers, at, forgotten

SLOW = (Rate(1, 10, 1),)
"""One run in ten seconds."""


class QueueRateSuite(QueueHandle):
    """Tests: rates of functions. They need one handle of the store."""

    def test_another_key_or_another_queue_does_not_lead_around_the_rate_of_a_function(self, mail: Store) -> None:
        for place in ({}, {"key": "a"}, {"key": "b"}, {"queue": "second"}, {"queue": "second", "key": "a"}, {"version": "2"}):
            several(mail, f"run {place}", rates=SLOW, **place)  # type: ignore[arg-type]
        targets = [*ORDER, Target("order", "2")]
        taken = [[header.name for header in admitted(mail, 9, at(seconds), targets)] for seconds in (0, 9.999, 10, 20, 30, 40, 50, 60)]
        assert [len(names) for names in taken] == [1, 0, 1, 1, 1, 1, 1, 0]

    def test_each_tenant_has_the_rate_of_a_function_for_itself(self, mail: Store) -> None:
        for tenant in ("x", "y"):
            several(mail, f"{tenant}1", f"{tenant}2", rates=SLOW, tenant=tenant)
        assert sorted(admitted_names(mail, 9)) == ["x1", "y1"]

    def test_each_user_has_the_rate_of_a_function_for_itself_whatever_the_key(self, mail: Store) -> None:
        for user in ("ann", "bob"):
            for key in ("1", "2"):
                several(mail, f"{user}{key}", rates=SLOW, user=user, key=key)
        assert sorted(name[:3] for name in admitted_names(mail, 9)) == ["ann", "bob"]
        assert sorted(name[:3] for name in admitted_names(mail, 9, at(10))) == ["ann", "bob"]

    def test_an_ordered_key_keeps_its_order_over_the_users_of_its_executions(self, mail: Store) -> None:
        declare(mail, ordered=True)
        for name, user in (("1", "bob"), ("2", "ann"), ("3", "bob")):
            several(mail, name, rates=(Rate(9, 1, 9),), user=user, key="k")
        order = []
        while taken := admitted(mail, 9):
            order += [header.name for header in taken]
            ended(mail, taken[0])
        assert order == ["1", "2", "3"]

    def test_starts_that_are_admitted_in_their_own_write_share_the_rate_too(self, mail: Store) -> None:
        first, second = enqueued(mail, *(queued(name, key=name, by=claimant(), rates=SLOW) for name in ("a", "b")))
        later = several(mail, "c", key="c", by=claimant(), rates=SLOW, now=at(9))[0]  # a new lane, of a rate that is used up
        assert [first.state, second.state, later.state] == [State.RUNNING, State.QUEUED, State.QUEUED]
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (9.999, 10, 20)] == [[], ["b"], ["c"]]

    def test_a_refused_start_uses_nothing_of_a_shared_rate(self, mail: Store) -> None:
        running(mail, "taken", key="k")
        refused, other = answers(
            mail, queued("taken", "[1]", key="a", by=claimant(), rates=SLOW), queued("b", key="b", by=claimant(), rates=SLOW)
        )
        assert isinstance(refused, HoldfastError)
        assert not isinstance(other, HoldfastError)
        assert [header.state for header in mail.list(Filter()) if header.name == "b"] == [State.RUNNING]

    def test_what_is_used_of_a_shared_rate_outlives_the_lane_that_used_it(self, mail: Store) -> None:
        ended(mail, running(mail, "a", key="a", rates=(Rate(1, 9 * 3600, 1),)))
        for hours in (2, 4, 6):
            forgotten(mail, at(hours * 3600))
        assert several(mail, "b", key="b", rates=SLOW, by=claimant(), now=at(6 * 3600))[0].state is State.QUEUED
        assert admitted_names(mail, 9, at(9 * 3600)) == ["b"]

    def test_a_shared_rate_of_which_nothing_is_used_is_forgotten_with_its_last_lane(self, mail: Store) -> None:
        for key in ("a", "b"):
            ended(mail, running(mail, key, key=key, rates=(Rate(9, 1, 9), Rate(9, 1, 9, TOKENS))), OutcomeStatus.SUCCEEDED)
        for hours in (2, 4, 6):
            forgotten(mail, at(hours * 3600))
        assert [lane.key for lane in mail.lanes(MAIL)] == [MAIL]


class SharedQueueRateSuite(TwoHandles):
    """Tests: rates of functions in a store that several processes use. They need two handles of the store."""

    def test_of_many_processes_that_admit_from_different_lanes_none_goes_beyond_a_shared_rate(self, stores: list[Store]) -> None:
        rate = (Rate(20, 3600, 20),)

        def act(n: int, store: Store) -> list[str]:
            taken = []
            for k in range(ROUNDS):
                how = {"queue": f"q{n % 2}", "rates": rate, "by": claimant(f"p{n}") if k % 2 else None}
                start = queued(f"{n}-{k}", id=made(n, k, 0), key=f"{k % 3}", **how)  # type: ignore[arg-type]
                (answer,) = answers(store, start)
                assert not isinstance(answer, HoldfastError)
                taken += [header.id for header in admitted(store, 2, runner=f"p{n}")]
            return taken

        together(stores, act)
        while admitted(stores[0], 9):
            pass
        begun = [
            header for header in stores[0].list(Filter(limit=1000)) if header.place is not None and header.place.admitted_at is not None
        ]
        assert len(begun) == min(20, ROUNDS * PROCESSES)
        check_counts(stores[0])
