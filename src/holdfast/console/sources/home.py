"""What the first page shows to one caller: what needs a person, what fails, what waits and why, how many runs there were, and what was
spent.

Lists and counts are read up to bounds. All callers of one tenant see the same, so a view may be kept for a few seconds and shown to all of
them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Final

import msgspec

from holdfast.console.sources.runs import MOST_LOOKED
from holdfast.console.sources.viewer import READ_SECONDS, CallerSource
from holdfast.costs.reports import CostQuestion, cost_report, day_text
from holdfast.descriptions.why import MOST_OPERATIONS, why
from holdfast.model.execution import Execution, State
from holdfast.model.ledger import DAY_MS
from holdfast.model.operations import Kind
from holdfast.model.queues import Mode
from holdfast.model.schedule_times import in_words
from holdfast.model.schedules import ScheduleState
from holdfast.model.shown_status import ShownStatus
from holdfast.queues.store_queues import QueueView, StoreQueues
from holdfast.schedules.store_schedules import Schedules
from holdfast.store.browse import Browse, Facet, Facets

HOUR_MS: Final = 3_600_000
MOST_COUNTED: Final = 1_000
MOST_IN_PART: Final = 5_000
"""At most this many runs of one slice of time are counted."""
_MOST_LINES: Final = 6
_MOST_SCHEDULES: Final = 500
_MOST_WAITING: Final = 50
_MOST_COSTED: Final = 500
_COST_DAYS: Final = 14
_DETAIL: Final = re.compile(r" until \d{4}-[^,.]*UTC| '(?:[^'\\]|\\.)*'")


class Count(msgspec.Struct, frozen=True):
    """A number, and whether counting stopped at a bound."""

    number: int
    bounded: bool = False
    """Whether there may be more than were counted."""


class PersonNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What needs a person now."""

    approvals: Count
    quarantined: Count
    parked: Count
    failed: Count
    """Runs that were started in the last hour and failed. Runs that other runs started are not counted."""


class Failing(msgspec.Struct, frozen=True):
    """A worker, a function, a pipeline or an error code, with two counts of failed runs: of the runs that started in the last hour
    (`hour`), and of those that started in the last 24 hours (`day`). Runs that other runs started are not counted."""

    name: str
    hour: int
    day: int


class WaitReason(msgspec.Struct, frozen=True, kw_only=True):
    """A reason for which executions wait, and how many of them wait for it. Only the executions that were looked at are counted."""

    sentence: str
    count: int
    function: str
    """The function of one of the executions that wait for this reason."""
    missing: bool = False
    """Whether no runner has published this version of the function. If so, an operator must start a runner that has it."""


class Coming(msgspec.Struct, frozen=True):
    """What a schedule starts next: when, which function, and the timing of the schedule in words."""

    name: str
    at: int
    function: str
    words: str


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that were started in one slice of time, by the status that each had when the runs were counted. Runs that other runs started
    are not counted."""

    since: int
    until: int
    ok: int
    failed: int
    stopped: int
    going_on: int
    bounded: bool

    @property
    def started(self) -> int:
        """How many runs were started in this slice. If `bounded`, there may have been more."""
        return self.ok + self.failed + self.stopped + self.going_on


class ModelCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent on models, in billionths of a dollar."""

    hour: int
    hour_bounded: bool
    """Whether there were more runs in the last hour than were counted."""
    today: int
    days: tuple[tuple[str, int], ...]
    """What was spent on each of the last 14 days, each as (day, amount), oldest first; the last one is today. Days are UTC days."""


class HomeView(msgspec.Struct, frozen=True, kw_only=True):
    """The first page without two parts: what needs a person, and the charts of runs."""

    is_new: bool
    """Whether the store has no execution that the caller may see."""
    errors: tuple[Failing, ...]
    failing: tuple[Failing, ...]
    counted: int
    bounded: bool
    queues: tuple[QueueView, ...]
    more_queues: int
    """How many queues are not shown although they have waiting runs, or are paused or draining."""
    reasons: tuple[WaitReason, ...]
    looked_at: int
    spent: ModelCosts
    runners: int
    held: int
    """How many executions the runners with a valid lease hold now; 0 for a caller of one tenant."""
    coming: tuple[Coming, ...]


class HomeSource(CallerSource):
    """Reads the first page for one caller."""

    @property
    def place(self) -> str | None:
        """The address of the store, which the page shows in commands. None for a caller of one tenant."""
        where = self._viewer.where
        if self._viewer.tenant is not None:
            return None
        return where if "://" in where else os.path.abspath(where)

    def needs(self) -> PersonNeeds:
        """What needs a person now. Each number is counted up to a bound."""
        asked = self._viewer.store.undecided("", MOST_COUNTED, self._viewer.tenant)
        quarantined = self._counts(Browse(statuses=(ShownStatus.QUARANTINED,)), MOST_COUNTED)
        failed = self._counts(Browse(statuses=(ShownStatus.FAILED,), since=self._viewer.now - HOUR_MS, roots=True), MOST_COUNTED)
        return PersonNeeds(
            approvals=Count(len(asked), len(asked) >= MOST_COUNTED),
            quarantined=Count(quarantined.counted, quarantined.bounded),
            parked=self._parked(),
            failed=Count(failed.counted, failed.bounded),
        )

    def view(self) -> HomeView:
        """The first page, without what `needs` and `part` return."""
        now = self._viewer.now
        hour, hour_pipelines = self._failed(now - HOUR_MS)
        day, day_pipelines = self._failed(now - DAY_MS)
        queues, more_queues = self._queues()
        looked_at, reasons = self._reasons()
        runners = [one for one in self._viewer.store.runners() if one.lease_until > now]
        return HomeView(
            is_new=not self._viewer.store.browse(self._confined(Browse(limit=1)), READ_SECONDS).rows,
            errors=_failing(_counter(hour, Facet.ERROR_CODE), _counter(day, Facet.ERROR_CODE)),
            failing=_failing(
                _counter(hour, Facet.WORKER, Facet.FUNCTION) + _counter(hour_pipelines, Facet.PIPELINE),
                _counter(day, Facet.WORKER, Facet.FUNCTION) + _counter(day_pipelines, Facet.PIPELINE),
            ),
            counted=day.counted,
            bounded=day.bounded,
            queues=queues,
            more_queues=more_queues,
            reasons=reasons,
            looked_at=looked_at,
            spent=self._spent(now),
            runners=len(runners),
            held=sum(one.holds for one in runners) if self._viewer.tenant is None else 0,
            coming=self._coming(),
        )

    def _confined(self, wanted: Browse) -> Browse:
        return msgspec.structs.replace(wanted, tenant=self._viewer.tenant)

    def _counts(self, wanted: Browse, most: int = 10_000) -> Facets:
        return self._viewer.store.facets(self._confined(wanted), READ_SECONDS, most)

    def _failed(self, since: int) -> tuple[Facets, Facets]:
        """The counts of runs that were started since `since` and failed: once of all kinds of runs, and once of pipelines only. The second
        is needed because the facet of a pipeline also counts the runs of its nodes. As in `needs`, runs that other runs started are not
        counted."""
        asked = Browse(statuses=(ShownStatus.FAILED,), since=since, roots=True)
        return self._counts(asked), self._counts(msgspec.structs.replace(asked, kinds=(Kind.PIPELINE,)))

    def _parked(self) -> Count:
        found = self._viewer.store.parked(None, "", MOST_COUNTED, self._viewer.tenant)
        return Count(len(found), len(found) >= MOST_COUNTED)

    # --- what waits

    def _queues(self) -> tuple[tuple[QueueView, ...], int]:
        """The first six queues in which runs wait, or which are paused or draining, and how many more there are. Paused and draining queues
        are first; within both groups, the queue with the most waiting runs is first."""
        viewer = self._viewer
        rows = viewer.store.queues()
        waiting = viewer.store.waiting_in([row.name for row in rows], viewer.tenant)
        told = [row for row in rows if waiting.get(row.name) or row.mode is not Mode.OPEN]
        told.sort(key=lambda row: (row.mode is Mode.OPEN, -waiting.get(row.name, 0), row.name))
        queues = StoreQueues(viewer.store, viewer.clock, viewer.ids, viewer.actor)
        shown = tuple(queues.get(row.name, tenant=viewer.tenant, lanes=0) for row in told[:_MOST_LINES])
        return shown, max(0, len(told) - _MOST_LINES)

    def _reasons(self) -> tuple[int, tuple[WaitReason, ...]]:
        """How many waiting executions were looked at (the newest, up to a bound), and the first six reasons for which they wait, each once:
        first those for which no runner has the version of the function (`missing`), then the most frequent. Executions that wait in a queue
        are in the number, but have no reason here: the page shows them with their queues."""
        store = self._viewer.store
        rows = store.browse(self._confined(Browse(statuses=(ShownStatus.WAITING,), limit=_MOST_WAITING)), READ_SECONDS).rows
        headers = [row.header for row in rows if row.header.state is not State.QUEUED]  # the page shows queued executions with their queues
        found: Counter[tuple[str, bool]] = Counter()
        functions: dict[tuple[str, bool], str] = {}
        left = MOST_LOOKED
        for header in headers:
            reason = self._reason(header, min(left, MOST_OPERATIONS))
            left -= header.operations if header.operations <= left else 0
            found[reason] += 1
            functions.setdefault(reason, header.function)
        told = sorted(found.items(), key=lambda one: (not one[0][1], -one[1]))
        lines = (WaitReason(sentence=key[0], missing=key[1], count=count, function=functions[key]) for key, count in told[:_MOST_LINES])
        return len(rows), tuple(lines)

    def _reason(self, header: Execution, most: int) -> tuple[str, bool]:
        """Why an execution waits, as a sentence; and True if it is ready, has not failed yet, and no runner has its version of the
        function. Times and quoted names are taken out of most sentences, so that executions with the same reason are counted together.
        `most`: if the execution has more operations than this, they are not read, and the sentence does not say for which operation it
        waits."""
        if header.state is State.READY and header.failures == 0:
            hosted = self._viewer.store.hosted(header.function)
            if not any(one.version == header.version for one in hosted):
                return f"{header.function} {header.version} is ready, but no runner has it. Start a runner that has it.", True
            return "It is ready and waits for a free runner that has its function.", False
        return _DETAIL.sub("", why(self._viewer.store, header, most).sentence), False

    # --- what was done and spent

    def part(self, since: int, until: int) -> RunCounts:
        """Count the runs that were started in a slice of time. If there are very many, only the newest are counted."""
        told = self._counts(Browse(since=since, until=until, roots=True), MOST_IN_PART)
        statuses = told.counts.get(Facet.STATUS, {})
        ok = statuses.get(ShownStatus.OK, 0) + statuses.get(ShownStatus.PARTIAL, 0)
        failed, stopped = statuses.get(ShownStatus.FAILED, 0), statuses.get(ShownStatus.STOPPED, 0)
        going_on = told.counted - ok - failed - stopped
        return RunCounts(since=since, until=until, ok=ok, failed=failed, stopped=stopped, going_on=going_on, bounded=told.bounded)

    def _spent(self, now: int) -> ModelCosts:
        """What was spent on models. The days come from the ledger, which has sums only for whole UTC days. For the last hour, the known
        costs of the runs that were started in this hour, but not by other runs, are added up, up to a bound."""
        asked = CostQuestion(by="day", since=f"{_COST_DAYS}d", tenant=self._viewer.tenant)
        by_day = {line.group[0]: line.nanos for line in cost_report(self._viewer.store, asked, now).lines}
        days = [day_text(now // DAY_MS - back) for back in reversed(range(_COST_DAYS))]
        found = self._viewer.store.browse(self._confined(Browse(since=now - HOUR_MS, roots=True, limit=_MOST_COSTED)), READ_SECONDS)
        hour = sum(row.header.summary.cost or 0 for row in found.rows if row.header.summary is not None)
        return ModelCosts(
            hour=hour, hour_bounded=found.more, today=by_day.get(days[-1], 0), days=tuple((day, by_day.get(day, 0)) for day in days)
        )

    def _coming(self) -> tuple[Coming, ...]:
        known = Schedules(self._viewer.store, self._viewer.clock, tenant=self._viewer.tenant).list(_MOST_SCHEDULES)
        due = [(one.next_at, one) for one in known if one.next_at is not None and not one.paused]
        return tuple(_come(at, one) for at, one in sorted(due, key=lambda each: (each[0], each[1].name))[:_MOST_LINES])


def _come(at: int, state: ScheduleState) -> Coming:
    return Coming(state.name, at, state.definition.function, in_words(state.definition.timing))


def _counter(facets: Facets, *fields: Facet) -> Counter[str]:
    return Counter({name: count for field in fields for name, count in facets.counts.get(field, {}).items()})


def _failing(hour: Counter[str], day: Counter[str]) -> tuple[Failing, ...]:
    return tuple(Failing(name, hour[name], count) for name, count in day.most_common(_MOST_LINES))
