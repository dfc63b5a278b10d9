"""The list of runs and executions: facets, search, rows. The address of the page contains the whole question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.console.query import FACETS, TIMES, Query, query_from
from holdfast.console.rendering import address
from holdfast.console.site import Site, redirect
from holdfast.console.visit import Visit
from holdfast.model.errors import InvalidParameter
from holdfast.web.page_errors import SAFE_HEADERS
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply, json_reply
from holdfast.web.routing import Route

RANGES = (("1h", "1 hour"), ("24h", "1 day"), ("7d", "7 days"), ("30d", "30 days"))


class RunsPages:
    """The pages of the list."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        site = self._site
        return [
            site.page("runs", self.list, "ListRunsPage"),
            site.page("runs/-/rows", self.rows, "ListRunsRows"),
            site.page("runs/-/facets", self.facets, "ListRunsFacets"),
            site.page("runs/-/complete", self.complete, "CompleteQuestion"),
            *site.action("runs/-/views", self.save_view, "SaveView", needs=Needs.VIEW),
            *site.action("runs/-/views/remove", self.remove_view, "RemoveView", needs=Needs.VIEW),
        ]

    def list(self, visit: Visit) -> Reply:
        """The whole page. A question that cannot be read is shown again, with what is wrong."""
        problem, asked = "", Query()
        try:
            asked = query_from(visit.text("q"))
        except InvalidParameter as wrong:
            problem = str(wrong)
        return self._site.rendering.page(
            visit, "runs.html", 422 if problem else 200, problem=problem, ranges=RANGES, **self._values(visit, asked)
        )

    def rows(self, visit: Visit) -> Reply:
        """Only the rows. An open page asks for them again."""
        return self._site.rendering.page(visit, "runs_rows.html", **self._values(visit, query_from(visit.text("q"))))

    def facets(self, visit: Visit) -> Reply:
        """Only the counts. A script asks for them after the rows are shown."""
        asked = query_from(visit.text("q"))
        counts = visit.source.runs.facets(asked)
        return self._site.rendering.page(visit, "runs_facets.html", query=asked, counts=counts)

    def complete(self, visit: Visit) -> Reply:
        """Completions for what a person types, as a JSON list: values of a qualifier, or, without `key`, names of qualifiers."""
        key, prefix = visit.text("key"), visit.text("prefix")[:200]
        if not key:
            return _words([f"{name}:" for name in (*FACETS, *TIMES, "is") if name.startswith(prefix)])
        return _words([f"{key}:{value}" for value in visit.source.runs.complete(key, prefix)])

    def save_view(self, visit: Visit) -> Reply:
        """Save the question under a name."""
        name, asked = visit.field("name"), query_from(visit.field("q"))
        if not name or len(name) > 100:
            raise InvalidParameter("Give the view a name of 1 to 100 characters.")
        visit.source.runs.save_view(name, asked)
        return redirect(visit, address("runs", q=asked))

    def remove_view(self, visit: Visit) -> Reply:
        """Remove a saved view of the caller."""
        visit.source.runs.remove_view(visit.field("name"))
        return redirect(visit, "runs")

    def _values(self, visit: Visit, asked: Query) -> dict[str, Any]:
        beyond = visit.text("beyond") or None
        page = visit.source.runs.page(asked, beyond)
        return {"query": asked, "page": page, "beyond": beyond, "views": visit.source.runs.views()}


def _words(found: Sequence[str]) -> Reply:
    return json_reply(found, headers=SAFE_HEADERS[1:])
