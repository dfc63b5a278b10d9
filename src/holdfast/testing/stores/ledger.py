"""The ledger: entries are written with their write, or not at all, and the daily sums are the sums of the entries."""

from typing import Any

import msgspec

from holdfast.model.charges import Charge
from holdfast.model.errors import LimitReached
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus, Terms
from holdfast.model.ledger import DAY_MS, CostFilter, CostSample, Dimension, EntryState, LedgerEntry, expiry
from holdfast.model.life import Claimant
from holdfast.model.operations import Action, Type, Update
from holdfast.model.outside import Fire, Stop
from holdfast.store.seam import Store
from holdfast.testing.stores.opened_stores import PROCESSES, OneHandle, TwoHandles
from holdfast.testing.stores.races import together
from holdfast.testing.stores.writes import T0, answers, at, checkpoint, forgotten, live, settled, step, wanted, written

S = EntryState


def entry(call: str, state: EntryState = S.RESERVED, **more: Any) -> LedgerEntry:
    """An entry of one call. With RESERVED it reserves 10 tokens and 5 billionths of a dollar, with any other state it ends this
    reservation; with SETTLED the same amount was spent. `more` sets its time (`at`) and other fields."""
    when: int = more.pop("at", T0)
    held = 1 if state is S.RESERVED else -1
    spent = {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2, "reasoning_tokens": 1, "nanos": 5} if state is S.SETTLED else {}
    who = {"tenant": "acme", "worker": "w", "run": "r", "root": "r", "path": "r", "model": "m", **spent, **more}
    return LedgerEntry(at=when, call=call, state=state, held_tokens=10 * held, held_nanos=5 * held, expires_at=expiry(when, 396), **who)


def sums(store: Store, *by: Dimension, **more: Any) -> list[tuple[object, ...]]:
    """The sums of the ledger by these dimensions; `more` are other members of the filter. Each row has the values of the dimensions, the
    state, the number of calls, the tokens, the billionths of a dollar, and the tokens that are reserved."""
    found = store.cost(CostFilter(by=by, **more))
    return [(*one.group, one.state, one.calls, one.input_tokens + one.output_tokens, one.nanos, one.held_tokens) for one in found]


class LedgerSuite(OneHandle):
    """Tests: entries and their sums. They need one handle of the store."""

    def test_an_entry_is_written_with_its_checkpoint_once_and_its_sums_with_it(self, store: Store) -> None:
        header = live(store, "a")
        write = msgspec.structs.replace(checkpoint(header, step("s"), client="x"), ledger=(entry("c"), entry("d")))
        answers(store, write)
        answers(store, write)
        assert [(one.call, one.state) for one in store.ledger("r")] == [("c", S.RESERVED), ("d", S.RESERVED)]
        assert sums(store, Dimension.MODEL) == [("m", S.RESERVED, 2, 0, 0, 20)]
        assert store.ledger("r")[0] == entry("c")

    def test_a_refused_checkpoint_adds_nothing(self, store: Store) -> None:
        header = live(store, "a")
        write = checkpoint(header, step("s"))
        beyond = msgspec.structs.replace(write, charges=(Charge("day", 2, 1, at(60)),), ledger=(entry("c"),))
        bad = msgspec.structs.replace(checkpoint(header, step("s", Action.RETRY)), ledger=(entry("d"),))
        limited, _ = answers(store, beyond, bad)
        assert isinstance(limited, LimitReached)
        assert (store.ledger("r"), sums(store)) == ([], [])

    def test_a_checkpoint_that_ends_its_execution_is_written_with_its_entries_and_charges(self, store: Store) -> None:
        by = Claimant("here", "here-1")
        starts = [wanted("guarded", terms=Terms(3600, max_operations=1)), wanted("closed")]
        guarded, closed = (written(store, msgspec.structs.replace(start, by=by)) for start in starts)
        end = Update(id="end", type=Type.EXECUTION, action=Action.FAIL)
        for header, updates in ((guarded, (step("s"), step("t"))), (closed, (end,))):
            who: dict[str, Any] = {"run": header.id, "root": header.id, "path": header.id}
            paid = Charge(f"day/{header.id}", 5, None, at(60))
            entries = (entry("c", **who), entry("c", S.SETTLED, **who))
            answers(store, msgspec.structs.replace(checkpoint(header, *updates), charges=(paid,), ledger=entries))
            assert (store.find(header.id) or header).status is ExecutionStatus.FAILED
            assert [one.state for one in store.ledger(header.id)] == [S.RESERVED, S.SETTLED]
            assert [counter.amount for counter in store.counters([paid.key])] == [5]

    def test_sums_are_those_of_the_entries_by_any_dimension_and_by_day(self, store: Store) -> None:
        header = live(store, "a")
        other: dict[str, Any] = {"run": "below", "path": "r/below", "pipeline": "p", "node": "n", "tenant": "zoo", "at": T0 + DAY_MS}
        entries = (entry("c"), entry("c", S.SETTLED), entry("d", **other), entry("d", S.SETTLED, **other))
        answers(store, msgspec.structs.replace(checkpoint(header, step("s")), ledger=entries))
        day = T0 // DAY_MS
        settled = [one for one in sums(store, Dimension.DAY, Dimension.NODE) if S.SETTLED in one]
        assert settled == [(day, "", S.SETTLED, 1, 10, 5, -10), (day + 1, "n", S.SETTLED, 1, 10, 5, -10)]
        assert sums(store, since_day=day + 1)[1] == (S.SETTLED, 1, 10, 5, -10)
        assert sums(store, tenant="acme", until_day=day + 1) == [(S.RESERVED, 1, 0, 0, 10), (S.SETTLED, 1, 10, 5, -10)]
        assert sums(store, Dimension.RUN, run="r", root="r")[1] == ("below", S.SETTLED, 1, 10, 5, -10)
        assert sums(store, run="below", root="r") == [(S.RESERVED, 1, 0, 0, 10), (S.SETTLED, 1, 10, 5, -10)]
        assert sums(store, run="below", root="other") == []
        assert store.cost_samples("p") == [CostSample("n", "", "below", 10, 5)]
        assert store.cost_samples("p", "acme") == []

    def test_past_calls_of_a_worker_are_summed_by_run_without_those_that_a_pipeline_asked_for(self, store: Store) -> None:
        header = live(store, "a")
        runs: list[dict[str, Any]] = [{"run": run, "root": run, "path": run} for run in ("r1", "r2", "r3", "r4")]
        first, second, zoo, inside = runs
        second["owner"], zoo["tenant"] = "above", "zoo"
        inside |= {"pipeline": "p", "node": "n"}
        calls = [("c", first), ("d", first), ("c", second), ("c", zoo), ("c", inside), ("e", first | {"worker": "other"})]
        entries = [entry(call, state, **who) for call, who in calls for state in (S.RESERVED, S.SETTLED)]
        entries += [entry("free", **second), entry("free", S.RELEASED, **second), entry("open", **second)]
        answers(store, msgspec.structs.replace(checkpoint(header, step("s")), ledger=tuple(entries)))

        one, two, three = CostSample("", "", "r1", 20, 10), CostSample("", "above", "r2", 10, 5), CostSample("", "", "r3", 10, 5)
        asked = {tenant: store.cost_samples_of_worker("w", tenant) for tenant in (None, "acme", "zoo", "none")}
        found = {tenant: sorted(samples, key=lambda sample: sample.run) for tenant, samples in asked.items()}
        assert found == {None: [one, two, three], "acme": [one, two], "zoo": [three], "none": []}

    def test_the_end_of_an_execution_ends_the_calls_that_it_left_open(self, store: Store) -> None:
        stopped, late, failed, apart = (live(store, name) for name in ("a", "b", "c", "d"))
        day_after = T0 + DAY_MS
        for header in (stopped, late, failed):
            who: dict[str, Any] = {"run": header.id, "root": header.id, "path": header.id}
            entries = (entry("ended", **who), entry("ended", S.SETTLED, **who), entry("left", **who))
            answers(store, msgspec.structs.replace(checkpoint(header, step("s")), ledger=entries))
        other = msgspec.structs.replace(checkpoint(apart, step("s")), ledger=(entry("left", run=apart.id, root=apart.id, path=apart.id),))
        answers(store, other)
        ends = (Stop(stopped.id), Fire(late.id), settled(store.find(failed.id) or failed, Outcome(OutcomeStatus.FAILED)))
        for write in ends:
            answers(store, write, now=day_after)
            answers(store, write, now=day_after)
        statuses = [(store.find(header.id) or header).status.value for header in (stopped, late, failed, apart)]
        assert statuses == ["STOPPED", "TIMED_OUT", "FAILED", "RUNNING"]
        for header in (stopped, late, failed):
            *_, end = found = store.ledger(header.id)
            assert [(one.call, one.state) for one in found[2:]] == [("left", S.RESERVED), ("left", S.UNKNOWN)]
            assert (end.at, end.expires_at, end.input_tokens, end.nanos) == (day_after, expiry(day_after, 396), 10, 5)
        assert len(store.ledger(apart.id)) == 1, "a run that goes on ends its calls itself"
        assert sums(store) == [(S.RESERVED, 7, 0, 0, 70), (S.SETTLED, 3, 30, 15, -30), (S.UNKNOWN, 3, 30, 15, -30)]

    def test_a_call_that_begins_in_the_batch_that_stops_its_execution_is_ended(self, store: Store) -> None:
        header = live(store, "a")
        begins = msgspec.structs.replace(checkpoint(header, step("s")), ledger=(entry("c", run=header.id),))
        answers(store, begins, Stop(header.id))
        assert [one.state for one in store.ledger(header.id)] == [S.RESERVED, S.UNKNOWN]

    def test_entries_and_sums_of_a_day_go_together_when_their_time_is_over(self, store: Store) -> None:
        header = live(store, "a")
        kept: dict[str, Any] = {"run": "later", "root": "later", "path": "later", "at": T0 + DAY_MS}
        entries = (*(entry(f"c{at}") for at in range(5)), entry("d", **kept))
        answers(store, msgspec.structs.replace(checkpoint(header, step("s")), ledger=entries))
        over = expiry(T0, 396)
        forgotten(store, over - 1)
        assert len(store.ledger("r")) == 5
        forgotten(store, over)
        assert (store.ledger("r"), len(store.ledger("later"))) == ([], 1)
        assert sums(store) == [(S.RESERVED, 1, 0, 0, 10)]


class SharedLedgerSuite(TwoHandles):
    """Tests: entries of several processes at the same time. They need a handle for each process."""

    def test_whoever_adds_at_once_the_sums_are_right(self, stores: list[Store]) -> None:
        def act(n: int, store: Store) -> None:
            for turn in range(5):
                header = live(store, f"{n}-{turn}")
                entries = tuple(entry(f"{turn}-{call}", run=f"r{n}", model=f"m{(n + call) % 3}") for call in range(3))
                answers(store, msgspec.structs.replace(checkpoint(header, step("s")), ledger=entries))

        together(stores, act)
        found = stores[0].cost(CostFilter(by=(Dimension.MODEL,)))
        assert sum(one.calls for one in found) == 15 * PROCESSES
        assert [one.held_tokens for one in found] == [10 * one.calls for one in found]
        assert sum(len(stores[0].ledger(f"r{n}")) for n in range(PROCESSES)) == 15 * PROCESSES
