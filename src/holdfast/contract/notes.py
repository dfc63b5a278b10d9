"""The notes of a reader: every problem at once, each with its place, and the name that was probably meant."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

from holdfast.contract.terms import Level, Problem

MAX_PROBLEMS = 200
MAX_GUESSES = 200
"""Names of one page for which the one that was meant is looked for: each look takes its time."""
_left: ContextVar[Iterator[int] | None] = ContextVar("guesses_left", default=None)
_SHOWN_CHARACTERS = 60
_MESSAGE_CHARACTERS = 900


class Notes:
    """The problems of one page, gathered while it is read. Of a page that has too many, the first are enough."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._noted_error = False
        self.failed = False
        """Whether there was any error."""

    def error(self, code: str, section: str, line: int, message: str) -> None:
        """The page cannot be used like this."""
        self.failed = True
        self._note(Level.ERROR, code, section, line, message)

    def warning(self, code: str, section: str, line: int, message: str) -> None:
        """The meaning is certain, and somebody should look all the same."""
        self._note(Level.WARNING, code, section, line, message)

    def _note(self, level: Level, code: str, section: str, line: int, message: str) -> None:
        first_error = level is Level.ERROR and not self._noted_error
        if len(self._problems) < MAX_PROBLEMS or first_error:
            self._noted_error |= level is Level.ERROR
            self._problems.append(Problem(level, code, section, line, _printable(message)[:_MESSAGE_CHARACTERS]))

    def problems(self) -> tuple[Problem, ...]:
        """In the order of the page; on one line errors first."""
        return tuple(sorted(self._problems, key=lambda problem: (problem.line, problem.level is Level.WARNING)))


@contextlib.contextmanager
def few_guesses() -> Iterator[None]:
    """While one page is read, only so many names are looked for."""
    token = _left.set(iter(range(MAX_GUESSES)))
    try:
        yield
    finally:
        _left.reset(token)


def meant(name: str, known: Iterable[str]) -> str:
    """A sentence that names what was probably meant, with a space before it; empty when nothing is near."""
    left = _left.get()
    if left is not None and next(left, None) is None:
        return ""
    spelled = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name[:_SHOWN_CHARACTERS].lower(), list(spelled), n=1, cutoff=0.7)
    return f" Did you mean `{spelled[near[0]]}`?" if near else ""


def shown(value: object) -> str:
    """The beginning of something from a page, fit to stand in a message."""
    text = value if isinstance(value, str) else repr(value)
    text = _printable(text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _printable(text: str) -> str:
    """On one line, and unable to steer a terminal: also a validator's own words repeat what stands on the page."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)
