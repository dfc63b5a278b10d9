"""Runners that take only executions of some queues or tenants: which executions the store offers them, and which it leaves to other
runners."""

from holdfast.model.execution import Outcome, OutcomeStatus, State
from holdfast.model.places import Only
from holdfast.store.seam import Store, Target
from holdfast.testing.stores.queue_writes import admitted, enqueued, queued, running
from holdfast.testing.stores.queues import QueueHandle
from holdfast.testing.stores.writes import T0, at, claim, live, names, settled, started, written

CRASHED = Outcome(OutcomeStatus.CRASHED, again_seconds=5)


def picky(*queues: str, tenants: tuple[str, ...] = ()) -> tuple[Target, ...]:
    """The targets of a runner that takes only executions of these queues and these tenants. Without queues it takes those of all queues,
    without tenants those of all tenants."""
    return (Target("order", "$LATEST", Only(frozenset(queues), frozenset(tenants))),)


class PickyRunnerSuite(QueueHandle):
    """Tests: runners with a filter. They need one handle of the store."""

    def test_a_runner_of_one_queue_is_admitted_from_it_alone_and_the_others_stay(self, mail: Store) -> None:
        enqueued(mail, queued("a", queue="other"), queued("b"), queued("c", queue="other"), queued("d"))
        assert names(admitted(mail, 9, targets=picky("mail"))) == ["b", "d"]
        assert names(admitted(mail, 9)) == ["a", "c"]

    def test_a_runner_of_one_tenant_is_admitted_from_its_lanes_alone(self, mail: Store) -> None:
        enqueued(mail, queued("a", tenant="acme-2"), queued("b", tenant="acme"), queued("c", tenant="a/b"), queued("d"))
        assert sorted(names(admitted(mail, 9, targets=picky(tenants=("acme", "a/b"))))) == ["b", "c"]
        assert names(admitted(mail, 9, targets=picky(tenants=("default",)))) == ["d"]

    def test_a_runner_with_both_takes_only_what_fits_both(self, mail: Store) -> None:
        enqueued(mail, queued("a", tenant="acme"), queued("b", tenant="acme", queue="other"), queued("c"))
        assert names(admitted(mail, 9, targets=picky("mail", tenants=("acme",)))) == ["a"]

    def test_ready_work_is_offered_by_the_same_choice_and_wakes_no_other_runner(self, mail: Store) -> None:
        plain, mine = started(mail, "plain"), running(mail, "mine", tenant="acme")
        child = started(mail, "child", parent=mine.id, parent_operation="call")
        woken = written(mail, settled(mine, CRASHED))
        assert woken.state is State.READY
        later = woken.ready_at
        assert set(mail.claimable(picky("mail"), (), later, 10)) == {woken.id, child.id}, "what was invoked may be of the queue"
        assert list(mail.claimable(picky(tenants=("acme",)), (), later, 10)) == [woken.id]
        assert set(mail.claimable(picky(tenants=("default",)), (), later, 10)) == {plain.id, child.id}
        assert mail.next_due(picky(tenants=("acme",))) == later
        written(mail, claim(woken, "here"), later)
        written(mail, claim(child, "here"), later)
        assert mail.next_due(picky("mail")) != plain.ready_at, "the runner is not woken for what it does not take"

    def test_what_a_dead_runner_left_and_suspects_are_offered_by_the_same_choice(self, mail: Store) -> None:
        mine, other = running(mail, "mine"), live(mail, "other")
        assert list(mail.claimable(picky("mail"), ("here",), T0, 10)) == [mine.id]
        assert set(mail.claimable(picky(tenants=("default",)), ("here",), T0, 10)) == {mine.id, other.id}
        for header in (mine, other):
            for runner, dead in (("there", "here"), ("there", "there")):
                written(mail, claim(header, runner, dead))
        assert mail.suspect(picky("mail"), at(1)) == mine.id
        assert mail.suspect(picky("elsewhere"), at(1)) is None
        assert mail.suspect(picky(tenants=("acme",)), at(1)) is None
