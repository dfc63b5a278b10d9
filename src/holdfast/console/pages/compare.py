"""Compare two runs: a person chooses the second one, and the page shows facts, inputs, results and parts of both side by side."""

from __future__ import annotations

from holdfast.console.page_request import PageRequest
from holdfast.console.site import PageGroup
from holdfast.model.errors import InvalidParameter
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LONGEST = 200


class ComparePages(PageGroup):
    """The page of a comparison."""

    def routes(self) -> list[Route]:
        return [self._site.page("compare", self.show, "ComparePage")]

    def show(self, request: PageRequest) -> Reply:
        """The comparison of the runs `?left=` and `?right=`. If `?right=` is missing or is the same run, the page is a list of runs to
        choose from. Raises InvalidParameter without `?left=`."""
        left, right = request.text("left")[:_LONGEST], request.text("right")[:_LONGEST]
        if not left:
            raise InvalidParameter("Open a run, and choose Compare there: the address needs ?left=ID.")
        if right and right != left:
            view = request.source.compare.view(left, right)
            return self._render(request, "compare.html", view=view, everything=request.text("all") == "1")
        text = request.text("q")[:_LONGEST].strip()
        facts, rows = request.source.compare.candidates(left, text)
        return self._render(request, "compare_choose.html", facts=facts, rows=rows, text=text)
