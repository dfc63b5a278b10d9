"""The audit log, for callers who administer all tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from holdfast.console.sources.viewer import CallerSource
from holdfast.model.audit import Noted, NoteFilter

PAGE: Final = 100
MOST_LINES: Final = 10_000
"""The file with the audit log has at most this many lines."""


class AuditSource(CallerSource):
    """Reads the audit log."""

    def page(self, wanted: NoteFilter) -> tuple[Sequence[Noted], int | None]:
        """Returns a page of the lines that match, newest first; and the number of the last line of this page, before which the next page
        begins. The number is None if this is the last page."""
        found = list(self._viewer.client.audit(msgspec.structs.replace(wanted, limit=PAGE + 1)))
        return found[:PAGE], found[PAGE - 1].number if len(found) > PAGE else None

    def lines(self, wanted: NoteFilter) -> Iterator[Noted]:
        """The newest lines that match, at most `MOST_LINES`."""
        return self._viewer.client.audit(msgspec.structs.replace(wanted, limit=MOST_LINES))
