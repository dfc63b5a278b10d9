"""Makes the reply for a page of tables: the whole page, one section that a script of the open page loads anew, or a CSV file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from holdfast.console.page_errors import SAFE_HEADERS
from holdfast.console.page_request import PageRequest
from holdfast.console.query import Query
from holdfast.console.rendering import address
from holdfast.console.site import PageGroup
from holdfast.console.tables import ConsolePage, csv_text
from holdfast.web.refusals import Refused
from holdfast.web.replies import Reply


class TablePages(PageGroup):
    """A group of pages that are made of tables."""

    def _tables(self, request: PageRequest, page: ConsolePage) -> Reply:
        """The reply with the page; its HTTP status is 422 if the page says what is wrong. If a script asks for one section (`?part=`), the
        reply has only that section, with status 200. Raises Refused (status 404) if the page has no section of this name."""
        wanted = part_asked(request)
        if not wanted:
            return self._render(request, "table.html", 422 if page.problem else 200, page=page)
        section = page.section(wanted)
        if section is None:
            raise Refused(404, "NotFound", "There is no such part of this page.")
        return self._render(request, "table_part.html", page=page, section=section)


def part_asked(request: PageRequest) -> str:
    """The name of the section that a script asks for; empty if the request is for the whole page."""
    return request.text("part") if request.is_fragment else ""


def csv_reply(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Reply:
    """The reply with a CSV file, which the browser saves as `name`.csv."""
    kind = ((b"content-type", b"text/csv; charset=utf-8"), (b"content-disposition", f'attachment; filename="{name}.csv"'.encode()))
    safe = tuple(header for header in SAFE_HEADERS if header[0] != b"content-type")
    return Reply(200, csv_text(columns, rows), (*kind, *safe))


@contextlib.contextmanager
def missing_is_no_page(*kinds: type[Exception]) -> Iterator[None]:
    """Raise Refused with status 404 if the block, or the decorated function, raises an error of these kinds. For pages about something that
    may not exist."""
    try:
        yield
    except kinds as missing:
        raise Refused(404, getattr(missing, "code", "not_found"), str(missing)) from None


def runs_of(key: str, value: str) -> str:
    """The address of the list of runs that shows only runs which match `key:value`, such as `queue:mail`."""
    return address("runs", q=Query(values=((key, value),)))


def part_of_path(text: str) -> str:
    """A name, percent-encoded, so that it is one part of a path."""
    return quote(text, safe="")
