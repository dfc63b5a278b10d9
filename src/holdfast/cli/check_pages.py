"""`holdfast check` of a page: reads it up to a size limit, and reports a page that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.contract.page import mentions_pipeline
from holdfast.contract.page_reader import MAX_PAGE_BYTES, read
from holdfast.contract.terms import PageReading, Problem, ProblemLevel

_MOST_LOOKED_AT: Final = 1024 * 1024
"""`may_be_pipeline` reads at most this many bytes of a page, because a pipeline.md is not larger."""


def read_page(file: Path, tools: list[str]) -> PageReading:
    """Read a page. It may name these tools besides the built-in ones. If the file cannot be read, the result has this problem and no
    contract."""
    try:
        with file.open("rb") as opened:
            return read(opened.read(MAX_PAGE_BYTES + 1), tools=tools)
    except (OSError, ValueError) as error:
        return unreadable(error)


def may_be_pipeline(file: Path) -> bool:
    """Whether a page may be a pipeline.md; False if the file cannot be read. This quick check comes first, because the modules that read a
    pipeline.md are slow to load."""
    try:
        with file.open("rb") as opened:
            return mentions_pipeline(opened.read(_MOST_LOOKED_AT))
    except (OSError, ValueError):
        return False


def unreadable(error: OSError | ValueError) -> PageReading:
    """A reading without a contract, whose only problem is that the file could not be read."""
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return PageReading(None, (Problem(ProblemLevel.ERROR, "file_not_readable", "", 0, f"The file could not be read: {why}."),))


def counted(count: int, what: str) -> str:
    """How many problems there are, such as `1 error`, `2 warnings` or `no errors`. `what` is the word for one of them."""
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"
