"""`holdfast check` of a page: read within bounds, and told of when it cannot be read at all."""

from __future__ import annotations

from pathlib import Path

from holdfast.contract.renderings import MAX_PAGE_BYTES, read
from holdfast.contract.terms import Level, Problem, Reading


def read_page(file: Path, tools: list[str]) -> Reading:
    """A page, which may name these tools besides the built-in ones."""
    try:
        with file.open("rb") as opened:
            return read(opened.read(MAX_PAGE_BYTES + 1), tools=tools)
    except (OSError, ValueError) as error:
        return unreadable(error)


def unreadable(error: OSError | ValueError) -> Reading:
    """What there is to tell of a file that could not be read."""
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return Reading(None, (Problem(Level.ERROR, "file_not_readable", "", 0, f"The file could not be read: {why}."),))
