"""The first page: what needs a person now, what fails, what waits and why, how many runs there were, and what was spent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup

from holdfast.console.charts import ChartBar, bars
from holdfast.console.page_request import PageRequest
from holdfast.console.rendering import usd
from holdfast.console.site import PageGroup, Site
from holdfast.console.sources.home import HOUR_MS, MOST_IN_PART, HomeView, RunCounts
from holdfast.model.clock import monotonic
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_FRESH_SECONDS: Final = 4.0
_PAST_SECONDS: Final = 60.0
"""If some runs of a past slice of time have not ended, its counts are kept in memory for this many seconds before they are read again."""
_OVER_SECONDS: Final = 600.0
"""If all runs of a past slice of time have ended, its counts are kept in memory for this many seconds before they are read again."""
_MOST_KEPT: Final = 100
_MOST_PARTS: Final = 5_000


class HomePages(PageGroup):
    """The first page and its parts."""

    def __init__(self, site: Site, tick: Callable[[], float] = monotonic) -> None:
        super().__init__(site)
        self._tick = tick
        self._kept: dict[str | None, tuple[float, HomeView]] = {}
        """By tenant: when the view was read, and the view. A view is used again for a few seconds, so that many open pages do not each read
        the store. The view of a store without runs is not used again."""
        self._parts: dict[tuple[str | None, int, int], tuple[float, RunCounts]] = {}
        """By tenant, begin and length of a slice of time: when its counts for the charts were read, and the counts."""

    def routes(self) -> list[Route]:
        site = self._site
        return [
            site.page("", self.home, "HomePage"),
            site.page("home/-/needs", self.needs, "HomeNeeds"),
            site.page("home/-/runs", self.runs, "HomeRuns"),
            site.page("home/-/body", self.body, "HomeBody"),
        ]

    def home(self, request: PageRequest) -> Reply:
        """The whole page without the charts of runs. A script asks for the charts afterwards, because reading their counts may take a
        second."""
        return self._render(request, "home.html", needs=request.source.home.needs(), **self._values(request))

    def needs(self, request: PageRequest) -> Reply:
        """Only the part that says what needs a person. An open page asks for it again when the store has changed (ticks.py)."""
        return self._render(request, "home_needs.html", needs=request.source.home.needs())

    def runs(self, request: PageRequest) -> Reply:
        """Only the charts of runs."""
        now, told = request.now, []
        for name, query, unit, count, length in (("hour", "1h", "5 minutes", 12, HOUR_MS // 12), ("day", "24h", "1 hour", 24, HOUR_MS)):
            parts = [self._part(request, since, length) for since in _slices(now, count, length)]
            told.append(
                {"name": name, "query": query, "unit": unit, "parts": parts, "chart": _throughput(parts, f"Runs of the last {name}")}
            )
        return self._render(request, "home_runs.html", charts=told, most=MOST_IN_PART)

    def body(self, request: PageRequest) -> Reply:
        """Only the part of the page below what needs a person, without the charts of runs."""
        return self._render(request, "home_body.html", **self._values(request))

    def _values(self, request: PageRequest) -> dict[str, Any]:
        view = self._view(request)
        days = [ChartBar(f"{day}: {usd(nanos)}", (("cost", nanos),)) for day, nanos in view.spent.days]
        return {
            "view": view,
            "commands": _first_commands(request.source.home.place),
            "cost_chart": bars(days, "Spent on models by day"),
        }

    def _view(self, request: PageRequest) -> HomeView:
        tenant, now = request.source.viewer.tenant, self._tick()
        at, view = self._kept.get(tenant, (None, None))
        if at is None or view is None or now - at > _FRESH_SECONDS or view.is_new:
            view = request.source.home.view()
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[tenant] = (now, view)
        return view

    def _part(self, request: PageRequest, since: int, length: int) -> RunCounts:
        key, tick = (request.source.viewer.tenant, since, length), self._tick()
        at, part = self._parts.get(key, (None, None))
        if at is not None and part is not None and tick - at <= _fresh(part, request.now):
            return part
        part = request.source.home.part(since, since + length)
        if len(self._parts) >= _MOST_PARTS:
            self._parts.clear()
        self._parts[key] = (tick, part)
        return part


def _fresh(part: RunCounts, now: int) -> float:
    if part.until > now:
        return _FRESH_SECONDS
    return _PAST_SECONDS if part.going_on else _OVER_SECONDS


def _slices(now: int, count: int, length: int) -> list[int]:
    """The times at which `count` slices of `length` milliseconds begin, oldest first. The present is in the last slice."""
    last = now // length * length
    return [last - back * length for back in reversed(range(count))]


def _throughput(parts: Sequence[RunCounts], label: str) -> Markup:
    total = sum(part.started for part in parts)
    slices = [
        ChartBar(
            f"{_at(part.since)} to {_at(part.until)} UTC: {part.started:,}{' or more' if part.bounded else ''} started, "
            f"{part.ok:,} ok, {part.failed:,} failed, {part.stopped:,} stopped, {part.going_on:,} going on",
            (("ok", part.ok), ("open", part.going_on), ("stopped", part.stopped), ("failed", part.failed)),
        )
        for part in parts
    ]
    return bars(slices, f"{label}: {total:,}")


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M")


def _first_commands(place: str | None) -> list[tuple[str, str]]:
    """What a person can do first with an empty store: pairs of (what the command does, the command). If `place`, the address of the store,
    is None, the commands name no store."""
    here = "" if place is None else f" --store {shlex.quote(place)}"
    return [
        ("Make a folder with a worker: its contract, its code and a test", "holdfast new worker hello"),
        ("Run it once; the run appears here", f"cd hello && holdfast run hello.py --input @case.json --key first{here}"),
        ("Serve it, so that others can ask for runs", f"holdfast serve hello.py{here}"),
    ]
