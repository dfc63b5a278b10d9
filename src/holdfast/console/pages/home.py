"""The first page: what needs a person now, what fails, what waits and why, and how much was done and spent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.console.charts import Slice, bars
from holdfast.console.query import quoted
from holdfast.console.rendering import usd
from holdfast.console.site import Site
from holdfast.console.sources.home import HomeView, Part
from holdfast.console.visit import Visit
from holdfast.model.clock import monotonic
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_FRESH_SECONDS: Final = 4.0
_MOST_KEPT: Final = 100


class HomePages:
    """The first page and its parts."""

    def __init__(self, site: Site, tick: Callable[[], float] = monotonic) -> None:
        self._site = site
        self._tick = tick
        self._kept: dict[str | None, tuple[float, HomeView]] = {}
        """The view of each tenant, for a few seconds: however many pages are open, the store is asked seldom."""

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        site = self._site
        return [
            site.page("", self.home, "HomePage"),
            site.page("home/-/needs", self.needs, "HomeNeeds"),
            site.page("home/-/body", self.body, "HomeBody"),
        ]

    def home(self, visit: Visit) -> Reply:
        """The whole page."""
        return self._site.rendering.page(visit, "home.html", needs=visit.source.home.needs(), **self._values(visit))

    def needs(self, visit: Visit) -> Reply:
        """What needs a person, alone: it is read again at every tick."""
        return self._site.rendering.page(visit, "home_needs.html", needs=visit.source.home.needs())

    def body(self, visit: Visit) -> Reply:
        """The rest of the page, alone."""
        return self._site.rendering.page(visit, "home_body.html", **self._values(visit))

    def _values(self, visit: Visit) -> dict[str, Any]:
        view = self._view(visit)
        return {
            "view": view,
            "commands": _first_commands(visit.source.home.place),
            "quoted": quoted,
            "hour_chart": _throughput(view.hour, "%H:%M", "Runs started in the last hour"),
            "day_chart": _throughput(view.day, "%H:%M", "Runs started in the last day"),
            "cost_chart": bars(
                [Slice(f"{day}: {usd(nanos)}", (("cost", nanos),)) for day, nanos in view.spent.days], "Spent on models by day", height=56
            ),
        }

    def _view(self, visit: Visit) -> HomeView:
        tenant, now = visit.source.home.tenant, self._tick()
        at, view = self._kept.get(tenant, (None, None))
        if at is None or view is None or now - at > _FRESH_SECONDS or view.is_new:
            view = visit.source.home.view()
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[tenant] = (now, view)
        return view


def _throughput(parts: Sequence[Part], clock: str, label: str) -> Any:
    total = sum(part.started for part in parts)
    slices = [
        Slice(
            f"{_at(part.since, clock)} to {_at(part.until, clock)} UTC: {part.started:,}{' or more' if part.bounded else ''} started, "
            f"{part.ok:,} ok, {part.failed:,} failed, {part.stopped:,} stopped, {part.going_on:,} going on",
            (("ok", part.ok), ("open", part.going_on), ("stopped", part.stopped), ("failed", part.failed)),
        )
        for part in parts
    ]
    return bars(slices, f"{label}: {total:,}")


def _at(ms: int, clock: str) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime(clock)


def _first_commands(place: str | None) -> list[tuple[str, str]]:
    """What a person does first with an empty store: what each command does, and the command."""
    here = "" if place is None else f" --store {shlex.quote(place)}"
    return [
        ("Make a folder with a worker: its contract, its code and a test", "holdfast new worker hello"),
        ("Run it once; the run appears here", f"cd hello && holdfast run hello.py --input @case.json --key first{here}"),
        ("Serve it, so that others can ask for runs", f"holdfast serve hello.py{here}"),
    ]
