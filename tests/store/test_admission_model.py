"""Admission against a naive model: random writes to queues, and after each the lanes are what the model says."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from holdfast.model.admission import Same, waits
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Claimant, Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms
from holdfast.model.outside import Answering, Fire, Release, Stop
from holdfast.model.places import path
from holdfast.model.queues import Mode, QueueRow, settings_from
from holdfast.model.rates import NS_PER_MS, Rate, RateState
from holdfast.model.verbs import Claim, Settle, Started, Write
from holdfast.store.seam import Filter, Target
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.queue_writes import counted, queued, recounted
from holdfast.testing.stores.writes import LEASE, T0, callback, checkpoint, settled, wait
from tests.parts import examples
from tests.store.naive_lanes import Naive

TARGETS = (Target("f", "$LATEST"), Target("g", "$LATEST"))
QUEUES = ("mail", "calls")
HOURS = 3_600_000
DAY_SECONDS = 86_400
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "at_once": st.integers(1, 3),
        "rates": st.sampled_from([["2/s burst 2"], ["4/s burst 2"], ["1/m"], ["100 tokens/s burst 60"], ["3/s", "200 tokens/s"]]),
    },
)
SETTINGS = st.fixed_dictionaries(
    {"limits": LIMITS, "waiting": st.sampled_from(["holds", "free"])},
    optional={"per_tenant": LIMITS, "per_key": LIMITS},
)
PLACES = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(["a", "a", "b"]),
        "key": st.sampled_from([None, None, "k"]),
        "function": st.sampled_from(["f", "f", "g"]),
    },
    optional={"units": st.integers(1, 60), "head_start_ms": st.sampled_from([0, 5000]), "ttl_ms": st.just(20_000)},
)


class Lanes(RuleBasedStateMachine):
    """A store in memory and the naive model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SqliteStore(":memory:", "here")
        self.store.join("here", LEASE)
        self.naive = Naive()
        self.now = T0
        self.numbers = itertools.count()
        self.invocations: set[str] = set()
        self.held: dict[str, int] = {}

    def teardown(self) -> None:
        self.store.close()

    # --- settings

    @initialize(first=SETTINGS, ordered=st.booleans(), second=SETTINGS)
    def declare(self, first: dict[str, Any], ordered: bool, second: dict[str, Any]) -> None:
        if ordered:
            first = {**{name: value for name, value in first.items() if name != "per_key"}, "ordered": True}
        for queue, declared in zip(QUEUES, (first, second), strict=True):
            self.store.declare([QueueRow(name=queue, declared=declared)])
            self.naive.settings[queue] = settings_from(declared)

    @rule(
        limits=LIMITS,
        level=st.sampled_from(["limits", "per_tenant"]),
        paused=st.sampled_from([False, False, True]),
        queue=st.sampled_from(QUEUES),
    )
    def operate(self, limits: dict[str, Any], level: str, paused: bool, queue: str) -> None:
        row = self.store.queue(queue)
        assert row is not None
        asked = msgspec.structs.replace(row, operator={level: limits}, mode=Mode.PAUSED if paused else Mode.OPEN)
        assert self.store.set_queue(asked)
        assert not self.store.set_queue(asked), "its revision is over"
        self.naive.operated(queue, asked.settings(), paused=paused)

    # --- writes

    def write(self, *batch: Write) -> list[Any]:
        """Commit a batch, and let the model see the headers that it left."""
        said = self.store.commit(batch, self.now)
        self.naive.put(self.changed())
        return list(said.answers)

    def changed(self) -> list[Execution]:
        known = self.naive.headers
        return [header for header in self.store.list(Filter(limit=10_000)) if known.get(header.id) != header]

    @rule(
        queue=st.sampled_from(("mail", "mail", "mail", "calls")),
        how=PLACES,
        by=st.booleans(),
        delay=st.sampled_from([0, 0, 0, 2000]),
        count=st.integers(1, 4),
    )
    def enqueue(self, queue: str, how: dict[str, Any], by: bool, delay: int, count: int) -> None:
        batch = []
        for _ in range(count):
            claimant = Claimant("here", f"first-{next(self.numbers)}") if by else None
            name = f"n{next(self.numbers)}"
            batch.append(queued(name, queue=queue, now=self.now, by=claimant, delay_ms=delay, terms=Terms(DAY_SECONDS), **how))
        said = self.store.commit(batch, self.now).answers
        for answer in said:  # one after the other: an earlier entry is seen by a later one
            if isinstance(answer, HoldfastError):
                assert "never admits more" in str(answer) or "ordered by key" in str(answer)
                continue
            assert isinstance(answer, Started)
            place = answer.header.place
            assert place is not None
            may = by and not delay and self.naive.at_start(place.lane, place.units, self.now)
            assert answer.header.state is (State.RUNNING if may else State.DELAYED if delay else State.QUEUED)
            self.naive.put([answer.header])
        assert self.changed() == []

    @rule(count=st.integers(1, 4))
    def admit_all(self, count: int) -> None:
        self.admit_for(count, TARGETS)

    @rule(count=st.integers(0, 4), hosted=st.sampled_from([TARGETS, TARGETS[:1], TARGETS[1:]]))
    def admit_some(self, count: int, hosted: tuple[Target, ...]) -> None:
        self.admit_for(count, hosted)

    def admit_for(self, count: int, hosted: tuple[Target, ...]) -> None:
        """The store admits what the model says, in the same order, and nothing twice."""
        before = {header.id for header in self.naive.headers.values() if waits(header)}
        expected, over = self.naive.admission(count, {f"{target.function}:{target.version}" for target in hosted}, self.now)
        by = [Claimant("here", f"in-{next(self.numbers)}") for _ in range(count)]
        done = self.store.admit(hosted, by, self.now)
        taken = [header for header in done.answers if isinstance(header, Execution)]
        assert [header.id for header in taken] == expected
        assert [header.id for header in done.followed] == over
        assert {header.id for header in taken} <= before, "each of them waited"
        assert not self.invocations & {header.invocation for header in taken}
        self.invocations |= {header.invocation or "" for header in taken}
        self.naive.put(self.changed())

    def some(self, data: st.DataObject, *states: State) -> Execution:
        found = sorted(header.id for header in self.naive.headers.values() if header.state in states)
        return self.naive.headers[data.draw(st.sampled_from(found))]

    def has(self, *states: State) -> bool:
        return any(header.state in states for header in self.naive.headers.values())

    @precondition(lambda self: self.has(State.RUNNING))
    @rule(
        data=st.data(),
        how=st.sampled_from([OutcomeStatus.SUCCEEDED, OutcomeStatus.PENDING, *OutcomeStatus]),
        used=st.sampled_from([None, 0, 150]),
        cool=st.sampled_from([None, None, 1500]),
    )
    def settle(self, data: st.DataObject, how: OutcomeStatus, used: int | None, cool: int | None) -> None:
        header = self.some(data, State.RUNNING)
        if how is OutcomeStatus.PENDING:
            (said,) = self.write(checkpoint(header, wait(f"w{header.revision}", 2), callback(f"c{header.revision}")))
            assert not isinstance(said, HoldfastError)
            header = self.naive.headers[header.id]
        until = None if cool is None else self.now + cool
        asked = settled(header, Outcome(how, "1", used=used, cool_until=until))
        heir = f"019b76da-a800-7000-8000-{next(self.numbers):012x}"
        self.write(msgspec.structs.replace(asked, successor=heir) if how is OutcomeStatus.CONTINUED else asked)
        after = self.naive.headers[header.id]
        assert header.place is not None
        if after.status is not ExecutionStatus.RUNNING and used is not None:
            self.naive.settled(header, used - header.place.units, self.now)
        if until is not None:
            self.naive.cooled(header, until)

    @precondition(lambda self: self.has(State.READY))
    @rule(data=st.data())
    def claim(self, data: st.DataObject) -> None:
        header = self.some(data, State.READY)
        self.write(Claim(header.id, Claimant("here", f"claim-{next(self.numbers)}"), alone=True))

    @precondition(lambda self: self.has(State.RUNNING))
    @rule(data=st.data())
    def take_over(self, data: st.DataObject) -> None:
        header = self.some(data, State.RUNNING)
        by = Claimant("here", f"over-{next(self.numbers)}")
        self.write(Claim(header.id, by, frozenset({"here"}), alone=data.draw(st.booleans())))

    @precondition(lambda self: any(header.ended_at is None for header in self.naive.headers.values()))
    @rule(data=st.data(), twice=st.booleans())
    def stop(self, data: st.DataObject, twice: bool) -> None:
        header = self.some(data, *(state for state in State if state is not State.CLOSED))
        self.write(*[Stop(header.id)] * (1 + twice))

    @precondition(lambda self: self.has(State.QUARANTINED))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.write(Release(self.some(data, State.QUARANTINED).id))

    @precondition(lambda self: self.has(State.SUSPENDED))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        header = self.some(data, State.SUSPENDED)
        waited = [op.id for op in self.store.operations(header.id) if op.id.startswith("c")]
        self.write(Answering(header.id, waited[-1], "1", by=Claimant("here", f"answer-{next(self.numbers)}")))

    @precondition(lambda self: bool(self.naive.headers))
    @rule(data=st.data(), again=st.booleans())
    def enqueue_again(self, data: st.DataObject, again: bool) -> None:
        """Replace an execution, or redrive it, in its own queue."""
        header = self.some(data, *State)
        assert header.place is not None
        same = Same.EXISTING if again else Same.REPLACE
        how: dict[str, Any] = {"tenant": header.tenant, "function": header.function, "terms": Terms(DAY_SECONDS)}
        key = next((part[4:] for part in header.place.lane.split("/") if part.startswith("key=")), None)
        asked = queued(header.name, queue=header.place.queue, now=self.now, again=again, same=same, key=key, **how)
        (said,) = self.write(asked)
        assert isinstance(said, Started | HoldfastError)

    @rule(ms=st.sampled_from([1, 499, 500, 1000, 2500, 21_000]))
    def tick(self, ms: int) -> None:
        self.now += ms
        for execution in self.store.due(self.now, 1000):
            self.write(Fire(execution))

    @precondition(lambda self: len(self.naive.headers) > 12)
    @rule()
    def forget(self) -> None:
        self.now += 2 * HOURS
        while self.store.expire(self.now, 3):
            pass
        self.naive.forget({lane.key for queue in QUEUES for lane in self.store.lanes(queue, limit=10_000)})

    # --- what is always true

    @invariant()
    def the_lanes_are_what_a_recount_finds(self) -> None:
        for queue in QUEUES:
            found = counted(self.store, queue)
            assert found == recounted(self.store, queue)
            if queue in self.naive.settings:
                assert found == self.naive.counts(queue)

    @invariant()
    def no_lane_goes_beyond_its_limit(self) -> None:
        """A limit may be lowered while more are held; then none is added."""
        held = {key: self.naive.held(key) for key in self.naive.lanes if key}
        assert [key for key, count in held.items() if count > max(self.naive.at_once(key), self.held.get(key, 0))] == []
        self.held = held


class Starved(Lanes):
    """As above; and at the end everything that waits is admitted when runners are free and nothing is paused."""

    def teardown(self) -> None:
        for queue in QUEUES if self.naive.settings else ():
            row = self.store.queue(queue)
            assert row is not None
            assert self.store.set_queue(msgspec.structs.replace(row, operator={}, mode=Mode.OPEN))
        rounds = 4 * len(self.naive.headers) + 8
        for _ in range(rounds):
            self.now += 61_000
            open_ones = [header for header in self.store.list(Filter(limit=10_000)) if header.ended_at is None]
            self.store.commit([Stop(header.id) for header in open_ones if not waits(header)], self.now)
            taken = self.store.admit(TARGETS, [Claimant("here", f"end-{n}") for n in range(9)], self.now).answers
            self.store.commit([_success(header) for header in taken if isinstance(header, Execution)], self.now)
        assert [header.name for header in self.store.list(Filter(limit=10_000)) if header.ended_at is None] == []
        super().teardown()


def _success(header: Execution) -> Settle:
    return settled(header, Outcome(OutcomeStatus.SUCCEEDED))


def test_lanes_are_what_a_naive_model_says_and_none_is_starved() -> None:
    run_state_machine_as_test(
        Starved,
        settings=settings(
            max_examples=examples(200), stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck), database=None
        ),
    )


# --- rates ---------------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(400), deadline=None)
@given(
    units=st.integers(1, 50),
    seconds=st.integers(1, 90),
    burst=st.integers(1, 60),
    asked=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 60)), min_size=1, max_size=60),
)
def test_in_any_span_a_rate_admits_at_most_its_burst_and_what_the_span_allows(
    units: int, seconds: int, burst: int, asked: list[tuple[int, int]]
) -> None:
    rate = Rate(units, seconds, burst)
    state, now, admitted = RateState("runs", rate.step_ns, burst), T0, list[tuple[int, int]]()
    for later, wanted in asked:
        now += later
        wanted = min(wanted, burst)
        charged = state.charged(wanted, now)
        if isinstance(charged, int):
            assert charged > now
            assert isinstance(state.charged(wanted, charged - 1), int), "not a millisecond sooner"
            assert isinstance(state.charged(wanted, charged), RateState), "it is admitted at the time that was told"
        else:
            state = charged
            admitted.append((now, wanted))
            assert state.tat_ns >= now * NS_PER_MS
    for first in range(len(admitted)):
        total = 0
        for at, wanted in admitted[first:]:
            total += wanted
            span_ms = at - admitted[first][0]
            assert (total - burst) * seconds * 1000 <= units * span_ms


def test_a_lane_of_a_place_names_every_level_above_it() -> None:
    assert path("q/tenant=a/function=f:1") == ("q", "q/tenant=a", "q/tenant=a/function=f:1")
