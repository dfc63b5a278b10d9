"""The list of runs and executions: facets, search, rows. The address of the page contains the whole question, which is what the person
searches for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.console.page_errors import SAFE_HEADERS
from holdfast.console.page_request import PageRequest
from holdfast.console.query import FACETS, TIMES, Query, query_from
from holdfast.console.rendering import address
from holdfast.console.site import PageGroup, redirect
from holdfast.model.errors import InvalidParameter
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply, json_reply
from holdfast.web.routing import Route

RANGES = (("1h", "1 hour"), ("24h", "1 day"), ("7d", "7 days"), ("30d", "30 days"))


class RunsPages(PageGroup):
    """The pages of the list."""

    def routes(self) -> list[Route]:
        site = self._site
        return [
            site.page("runs", self.list, "ListRunsPage"),
            site.page("runs/-/rows", self.rows, "ListRunsRows"),
            site.page("runs/-/facets", self.facets, "ListRunsFacets"),
            site.page("runs/-/complete", self.complete, "CompleteQuestion"),
            *site.action("runs/-/views", self.save_view, "SaveView", needs=Needs.VIEW),
            *site.action("runs/-/views/remove", self.remove_view, "RemoveView", needs=Needs.VIEW),
        ]

    def list(self, request: PageRequest) -> Reply:
        """The whole page. If the question cannot be read, the page shows what is wrong, and the runs that an empty question finds."""
        problem, asked = "", Query()
        try:
            asked = query_from(request.text("q"))
        except InvalidParameter as wrong:
            problem = str(wrong)
        return self._render(request, "runs.html", 422 if problem else 200, problem=problem, ranges=RANGES, **self._values(request, asked))

    def rows(self, request: PageRequest) -> Reply:
        """Only the rows. An open page asks for them again when the store has changed. Raises InvalidParameter if the question cannot be
        read."""
        return self._render(request, "runs_rows.html", **self._values(request, query_from(request.text("q"))))

    def facets(self, request: PageRequest) -> Reply:
        """Only the facets: how many runs have each status, worker, queue and so on. A script asks for them after the rows are shown. Raises
        InvalidParameter if the question cannot be read."""
        asked = query_from(request.text("q"))
        counts = request.source.runs.facets(asked)
        return self._render(request, "runs_facets.html", query=asked, counts=counts)

    def complete(self, request: PageRequest) -> Reply:
        """Completions for what a person types, as a JSON list. With `?key=`: values of that qualifier that begin with `?prefix=`. Without
        it: names of qualifiers that begin so."""
        key, prefix = request.text("key"), request.text("prefix")[:200]
        if not key:
            return _words([f"{name}:" for name in (*FACETS, *TIMES, "is") if name.startswith(prefix)])
        return _words([f"{key}:{value}" for value in request.source.runs.complete(key, prefix)])

    def save_view(self, request: PageRequest) -> Reply:
        """Save the question under a name, for the caller. Raises InvalidParameter if the name is empty or too long, or if the question
        cannot be read, and TooManyViews if the caller has too many views."""
        name, asked = request.field("name"), query_from(request.field("q"))
        if not name or len(name) > 100:
            raise InvalidParameter("Give the view a name of 1 to 100 characters.")
        request.source.runs.save_view(name, asked)
        return redirect(request, address("runs", q=asked))

    def remove_view(self, request: PageRequest) -> Reply:
        """Remove a saved view of the caller."""
        request.source.runs.remove_view(request.field("name"))
        return redirect(request, "runs")

    def _values(self, request: PageRequest, asked: Query) -> dict[str, Any]:
        beyond = request.text("beyond") or None
        page = request.source.runs.page(asked, beyond)
        return {"query": asked, "page": page, "beyond": beyond, "views": request.source.runs.views()}


def _words(found: Sequence[str]) -> Reply:
    return json_reply(found, headers=SAFE_HEADERS[1:])
