""" "Copy as a test": a page with a Python test that is made from a run, and the same text as a file."""

from __future__ import annotations

from holdfast.console.page_errors import SAFE_HEADERS
from holdfast.console.page_request import PageRequest
from holdfast.console.run_as_test import RecordedRun, written
from holdfast.console.site import PageGroup
from holdfast.model.errors import InvalidParameter
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_LOCKED = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class RunTestPages(PageGroup):
    """The page with a test that is made from a run, and the test as a file."""

    def routes(self) -> list[Route]:
        return [
            self._site.page("runs/([^/]+)/test", self.show, "RunAsTestPage"),
            self._site.page("runs/([^/]+)/test/file", self.file, "RunAsTestFile"),
        ]

    def show(self, request: PageRequest) -> Reply:
        """The page with the test. If no test can be made from the run, the page says why."""
        header = request.source.viewer.find(request.label)
        try:
            recorded: RecordedRun | None = request.source.run_tests.recorded(request.label)
            problem = ""
        except InvalidParameter as refused:
            recorded, problem = None, str(refused)
        text = "" if recorded is None else written(recorded)
        return self._render(request, "run_test.html", header=header, recorded=recorded, text=text, problem=problem)

    def file(self, request: PageRequest) -> Reply:
        """The test as a Python file. Raises InvalidParameter if no test can be made from the run."""
        recorded = request.source.run_tests.recorded(request.label)
        name = f"test_{recorded.run}.py".replace("-", "_")
        disposition = (b"content-disposition", f'attachment; filename="{name}"'.encode())
        return Reply(200, written(recorded).encode("utf-8", "backslashreplace"), (_PLAIN, *SAFE_HEADERS[1:], _LOCKED, disposition))
