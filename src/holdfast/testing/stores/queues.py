"""Queues: which executions are admitted, in which order, how many at once and how fast. How executions of a queue end is tested in
queue_ends.py."""

from collections.abc import Iterator

import pytest

from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import ExecutionStatus, OutcomeStatus, State
from holdfast.model.rates import TOKENS, Rate
from holdfast.model.verbs import Started
from holdfast.store import admission_order
from holdfast.store.seam import Store, Target
from holdfast.testing.stores.opened_stores import OneHandle
from holdfast.testing.stores.queue_writes import (
    MAIL,
    admitted,
    admitted_names,
    check_counts,
    claimant,
    committed,
    declare,
    ended,
    enqueued,
    queued,
    running,
    several,
)
from holdfast.testing.stores.writes import ORDER, T0, answers, at, names, now_at, story

ELSEWHERE = Target("elsewhere", "$LATEST")


class QueueHandle(OneHandle):
    """Tests with a store whose lanes are counted anew at the end of each test."""

    @pytest.fixture
    def mail(self, store: Store) -> Iterator[Store]:
        """The store. At the end of the test, the counts of every lane must be what a recount finds."""
        yield store
        check_counts(store)


class QueueSuite(QueueHandle):
    """Tests: admission, limits, fairness and rates. They need one handle of the store."""

    # --- admission

    def test_an_execution_that_no_runner_takes_waits_in_its_lane_and_is_no_ready_work(self, mail: Store) -> None:
        (header,) = enqueued(mail, queued("a"))
        assert (header.state, header.status, header.runner) == (State.QUEUED, ExecutionStatus.RUNNING, None)
        assert header == now_at(mail, header)
        assert (list(mail.claimable(ORDER, (), at(9), 10)), list(mail.due(at(9999), 10)), mail.next_due(ORDER)) == ([], [], None)
        state = mail.queue_state(MAIL, T0)
        assert (state.waiting, state.held, state.oldest_at, state.admitted) == (1, 0, T0, 0)

    def test_a_start_by_a_runner_is_admitted_and_claimed_in_its_own_write_if_there_is_room(self, mail: Store) -> None:
        header = running(mail, "a")
        assert (header.state, header.runner, header.epoch) == (State.RUNNING, "here", 1)
        assert header.place is not None
        assert (header.place.admitted_at, header.place.lane) == (T0, "mail/tenant=default/function=order:$LATEST")
        assert list(mail.held("here")) == [header.id]
        assert (mail.queue_state(MAIL, T0).held, mail.queue_state(MAIL, T0).admitted) == (1, 1)

    def test_nothing_overtakes_what_waits(self, mail: Store) -> None:
        several(mail, "a")
        (second,) = several(mail, "b", by=claimant())
        assert second.state is State.QUEUED
        assert admitted_names(mail, 9) == ["a", "b"]

    def test_an_admission_claims_in_the_same_commit_and_the_time_limit_counts_from_it(self, mail: Store) -> None:
        (waiting,) = several(mail, "a")
        (header,) = admitted(mail, 1, at(500))
        assert (header.id, header.state, header.runner, header.epoch) == (waiting.id, State.RUNNING, "here", 1)
        assert header.place is not None
        assert (header.place.admitted_at, header.deadline, header.due_at) == (at(500), at(4100), at(4100))
        assert header == now_at(mail, header)
        assert list(mail.held("here")) == [header.id]
        assert [kind.value for kind in story(mail, header)] == ["ExecutionStarted"]
        assert ended(mail, header, now=at(501)).status is ExecutionStatus.SUCCEEDED

    def test_one_is_admitted_for_each_claimant_in_the_order_of_the_lane(self, mail: Store) -> None:
        several(mail, *"abcde")
        assert [admitted_names(mail, 2), admitted_names(mail, 2), admitted_names(mail, 2)] == [["a", "b"], ["c", "d"], ["e"]]
        assert committed(mail, 2).answers == ()
        assert committed(mail, 0).answers == ()

    def test_a_head_start_is_time_and_not_rank(self, mail: Store) -> None:
        several(mail, "old")
        several(mail, "urgent", now=at(10), head_start_ms=60_000)
        several(mail, "less urgent", now=at(10), head_start_ms=5_000)
        assert admitted_names(mail, 9, at(10)) == ["urgent", "old", "less urgent"]

    def test_how_many_stand_before_an_execution_is_told(self, mail: Store) -> None:
        made = several(mail, *"abc")
        assert [mail.ahead(header) for header in made] == [0, 1, 2]
        assert mail.ahead(made[2], 1) == 1

    # --- limits

    def test_never_more_run_at_once_than_the_queue_allows_and_a_free_slot_is_for_the_next(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 2})
        made = several(mail, *"abcd", by=claimant())
        assert [header.state for header in made] == [State.RUNNING] * 2 + [State.QUEUED] * 2
        assert admitted(mail, 5) == []
        ended(mail, made[0])
        assert admitted_names(mail, 5) == ["c"]
        assert admitted(mail, 5) == []

    def test_each_tenant_and_each_key_has_limits_of_its_own(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 6}, per_tenant={"at_once": 4}, per_key={"at_once": 2})
        for tenant in ("x", "y"):
            for key in ("1", "2", "3"):
                several(mail, *(f"{tenant}{key}{n}" for n in range(5)), tenant=tenant, key=key)
        taken = admitted(mail, 100)
        assert len(taken) == 6
        assert max(len([h for h in taken if h.name[0] == tenant]) for tenant in "xy") <= 4
        assert max(len([h for h in taken if h.name[:2] == lane]) for lane in ("x1", "x2", "x3", "y1", "y2", "y3")) <= 2
        full = {lane.key for lane in mail.lanes(MAIL, limit=100) if lane.at_once is not None and lane.held >= lane.at_once}
        assert MAIL in full

    def test_a_full_tenant_keeps_no_other_tenant_waiting(self, mail: Store) -> None:
        declare(mail, per_tenant={"at_once": 1})
        several(mail, "x1", "x2", tenant="x")
        assert admitted_names(mail, 5) == ["x1"]
        several(mail, "y1", tenant="y")
        assert admitted_names(mail, 5) == ["y1"]

    def test_no_tenant_and_no_key_can_name_the_lane_of_another(self, mail: Store) -> None:
        declare(mail, per_tenant={"at_once": 1}, per_key={"at_once": 1})
        places = (("a", "b/function=order:1"), ("a/key=b", "x"), ("a%2Fkey=b", None), ("a", "b"), ("ü" * 256, "ß" * 256), ("ü" * 255, "k"))
        made = [header for n, (tenant, key) in enumerate(places) for header in several(mail, f"n{n}", tenant=tenant, key=key)]
        lanes = {header.place.lane for header in made if header.place is not None}
        assert len(lanes) == len(places)
        assert max(len(lane) for lane in lanes) < 1000
        assert len(admitted(mail, 10)) == len({tenant for tenant, _ in places})

    @pytest.mark.parametrize("bad", [{"queue": "a/b"}, {"key": ""}, {"key": "k" * 257}, {"key": "\n"}, {"units": -1}, {"delay_ms": 10**16}])
    def test_what_is_no_place_is_refused_and_nothing_is_written(self, mail: Store, bad: dict[str, object]) -> None:
        (refused,) = answers(mail, queued("a", **bad))  # type: ignore[arg-type]
        assert isinstance(refused, InvalidParameter)
        assert (mail.find_named("order", "a"), list(mail.queues()), list(mail.lanes(MAIL))) == (None, [], [])

    # --- fairness

    def test_a_long_lane_keeps_a_short_one_waiting_for_one_admission_at_a_time(self, mail: Store) -> None:
        enqueued(mail, *(queued(f"long{n}", tenant="long") for n in range(1000)))
        several(mail, "short0", "short1", "short2", tenant="short")
        taken = [name for _ in range(4) for name in admitted_names(mail, 2)]
        assert [name for name in taken if name.startswith("short")] == ["short0", "short1", "short2"]
        assert [name for name in taken if name.startswith("long")] == ["long0", "long1", "long2", "long3", "long4"]
        assert max(taken.index(f"short{n}") for n in range(3)) <= 5

    def test_a_lane_in_which_nothing_waited_does_not_catch_up_on_turns(self, mail: Store) -> None:
        several(mail, *(f"x{n}" for n in range(20)), tenant="x")
        assert len(admitted(mail, 10)) == 10
        several(mail, *(f"y{n}" for n in range(20)), tenant="y")
        taken = admitted_names(mail, 8)
        assert [len([name for name in taken if name[0] == tenant]) for tenant in "xy"] == [4, 4]

    def test_queues_keys_and_functions_take_turns_too(self, mail: Store) -> None:
        several(mail, *(f"m{n}" for n in range(9)), queue="many")
        several(mail, "f0", "f1", queue="few")
        assert sorted(admitted_names(mail, 4)) == ["f0", "f1", "m0", "m1"]
        several(mail, *(f"k{n}" for n in range(9)), queue="keys", key="1")
        several(mail, "l0", "l1", queue="keys", key="2")
        taken = [name for name in admitted_names(mail, 30) if name[0] in "kl"]
        assert sorted(taken[:4]) == ["k0", "k1", "l0", "l1"]

    def test_a_lane_that_was_closed_for_long_does_not_catch_up_either(self, mail: Store) -> None:
        first = running(mail, "x", tenant="x")
        several(mail, *(f"x{n}" for n in range(9)), tenant="x")
        several(mail, *(f"y{n}" for n in range(30)), tenant="y")
        ended(mail, first, cool_until=at(60))
        assert {name[0] for name in admitted_names(mail, 20)} == {"y"}
        taken = admitted_names(mail, 8, at(60))
        assert min(len([name for name in taken if name[0] == tenant]) for tenant in "xy") >= 3

    # --- functions

    def test_lanes_of_functions_that_the_runner_does_not_host_are_passed_over(self, mail: Store) -> None:
        several(mail, *(f"e{n}" for n in range(5)), function="elsewhere")
        several(mail, *(f"v{n}" for n in range(5)), version="7")
        several(mail, "mine")
        assert admitted_names(mail, 9) == ["mine"]
        assert admitted(mail, 9) == []
        assert names(admitted(mail, 9, targets=[ELSEWHERE])) == ["e0", "e1", "e2", "e3", "e4"]
        assert mail.queue_state(MAIL, T0).waiting == 5

    def test_however_many_lanes_are_passed_over_the_own_one_is_met(self, mail: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission_order, "_MOST_LOOKS", 6)
        for n in range(40):
            several(mail, f"e{n}", tenant=f"t{n:02}", function="elsewhere")
        several(mail, *(f"f{n}" for n in range(3)), queue="zz", function="elsewhere")
        several(mail, "mine", tenant="zz")
        several(mail, "beside", queue="zz")
        walks = [name for _ in range(30) for name in admitted_names(mail, 1)]
        assert sorted(walks) == ["beside", "mine"]
        taken = admitted(mail, 50, targets=[ELSEWHERE]) + admitted(mail, 50, targets=[ELSEWHERE])
        assert len(taken) == 43

    # --- rates

    def test_a_rate_of_runs_admits_at_exact_times(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["2/s burst 3"]})
        several(mail, *(f"n{n}" for n in range(9)))
        assert len(admitted(mail, 9)) == 3
        assert mail.next_due(ORDER) == at(0.5)
        assert [len(admitted(mail, 9, at(seconds))) for seconds in (0.499, 0.5, 0.999, 1.0)] == [0, 1, 0, 1]
        assert len(admitted(mail, 9, at(10))) == 3

    def test_a_rate_counts_starts_that_are_admitted_at_once(self, mail: Store) -> None:
        declare(mail, per_tenant={"rates": ["1/m"]})
        assert [header.state for header in several(mail, "a", "b", by=claimant())] == [State.RUNNING, State.QUEUED]
        assert [admitted_names(mail, 1, at(seconds)) for seconds in (59.999, 60)] == [[], ["b"]]

    def test_a_rate_of_tokens_counts_units_and_an_execution_above_its_burst_is_refused(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["1000 tokens/s"]})
        (refused,) = answers(mail, queued("big", units=1001))
        assert isinstance(refused, InvalidParameter)
        assert "1001 tokens" in str(refused)
        assert mail.find_named("order", "big") is None
        several(mail, "a", "b", "c", units=600)
        assert admitted_names(mail, 9) == ["a"]
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (0.199, 0.2, 0.799, 0.8)] == [[], ["b"], [], ["c"]]

    def test_what_an_execution_really_used_moves_the_rate(self, mail: Store) -> None:
        declare(mail, limits={"rates": ["1000 tokens/s"]})
        less, more = several(mail, "a", "b", units=500, by=claimant())
        several(mail, "c", "d", units=500)
        assert admitted(mail, 9) == []
        ended(mail, less, used=100)
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (0.099, 0.1)] == [[], ["c"]]
        ended(mail, more, OutcomeStatus.FAILED, used=1500, now=at(0.1))
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (1.599, 1.6)] == [[], ["d"]]

    def test_the_rate_of_a_function_counts_for_its_own_lane(self, mail: Store) -> None:
        slow = (Rate(1, 10, 1), Rate(100, 1, 100, TOKENS))
        several(mail, "a", "b", rates=slow)
        several(mail, "x", function="elsewhere")
        several(mail, "y", function="elsewhere")
        assert sorted(names(admitted(mail, 9, targets=[*ORDER, ELSEWHERE]))) == ["a", "x", "y"]
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (9.999, 10)] == [[], ["b"]]

    def test_a_cool_down_closes_the_lane_until_its_time(self, mail: Store) -> None:
        first = running(mail, "a")
        several(mail, "b", "c")
        several(mail, "other", tenant="x")
        ended(mail, first, cool_until=at(30))
        assert admitted_names(mail, 9) == ["other"]
        assert mail.next_due(ORDER) == at(30)
        assert several(mail, "d", by=claimant())[0].state is State.QUEUED
        assert [admitted_names(mail, 9, at(seconds)) for seconds in (29.999, 30)] == [[], ["b", "c", "d"]]
        assert mail.next_due(ORDER) == at(3600)

    # --- order

    def test_an_ordered_queue_runs_one_of_a_key_at_a_time_in_the_order_of_the_enqueues(self, mail: Store) -> None:
        declare(mail, ordered=True)
        several(mail, "a1", "b1", key="1", head_start_ms=99_000)
        several(mail, "a2", "b2", key="2")
        (refused,) = answers(mail, queued("no key"))
        assert isinstance(refused, InvalidParameter)
        first, second = admitted(mail, 9)
        assert sorted([first.name, second.name]) == ["a1", "a2"]
        ended(mail, first, OutcomeStatus.CRASHED, now=at(1))
        assert admitted(mail, 9, at(1)) == []
        ended(mail, second, now=at(1))
        assert admitted_names(mail, 9, at(1)) == ["b" + second.name[1]]

    def test_an_ordered_key_keeps_its_order_over_functions_and_versions(self, mail: Store) -> None:
        declare(mail, ordered=True)
        several(mail, "1", key="k")
        several(mail, "2", key="k", version="2")
        several(mail, "3", key="k")
        targets = [*ORDER, Target("order", "2")]
        for name in ("1", "2", "3"):
            if name == "2":
                assert admitted(mail, 9) == [], "another runner hosts what is next"
            (header,) = admitted(mail, 9, targets=targets)
            assert header.name == name
            ended(mail, header)

    def test_a_refused_entry_leaves_nothing_in_the_lanes(self, mail: Store) -> None:
        declare(mail, limits={"at_once": 1, "rates": ["1/h"]})
        bad = queued("b", by=claimant(), tenant="new", graph="no graph")
        said = answers(mail, bad, queued("a", by=claimant()))
        assert [isinstance(answer, HoldfastError) for answer in said] == [True, False]
        assert isinstance(said[1], Started)
        assert said[1].header.state is State.RUNNING
        assert [lane.key for lane in mail.lanes(MAIL) if "new" in lane.key] == []
