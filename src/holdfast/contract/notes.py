"""Collects the problems that the reader of a page finds, each with its place, and finds the name that an author probably meant."""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar

from holdfast.contract.terms import Problem, ProblemLevel

MAX_PROBLEMS = 200
MAX_GUESSES = 200
"""For at most this many names of one page a similar known name is searched, because each search takes time."""
_left: ContextVar[Iterator[int] | None] = ContextVar("guesses_left", default=None)
_SHOWN_CHARACTERS = 60
_MESSAGE_CHARACTERS = 900


class PageNotes:
    """The problems of one page, collected while it is read. The first MAX_PROBLEMS errors and the first MAX_PROBLEMS warnings are kept."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._words: Mapping[str, str] = {}
        self._noted: Counter[ProblemLevel] = Counter()
        self.failed = False
        """Whether there was any error."""

    def error(self, code: str, section: str, line: int, message: str) -> None:
        """Note an error: the page cannot be used as it is."""
        self.failed = True
        self._note(ProblemLevel.ERROR, code, section, line, message)

    def warning(self, code: str, section: str, line: int, message: str) -> None:
        """Note a warning: the page can be used, but the author should look at it."""
        self._note(ProblemLevel.WARNING, code, section, line, message)

    def _note(self, level: ProblemLevel, code: str, section: str, line: int, message: str) -> None:
        if self._noted[level] < MAX_PROBLEMS:
            self._noted[level] += 1
            for word, own in self._words.items():
                message = message.replace(word, own)
            section = self._words.get(section, section)
            self._problems.append(Problem(level, code, section, line, printable(message)[:_MESSAGE_CHARACTERS]))

    @contextlib.contextmanager
    def calling(self, words: Mapping[str, str]) -> Iterator[None]:
        """Inside this `with` block, each key of `words` is replaced by its value in the problems that are noted. So the problems of a
        `pipeline.md` speak of its Pipeline spec, and not of a Worker spec."""
        self._words = words
        try:
            yield
        finally:
            self._words = {}

    def problems(self) -> tuple[Problem, ...]:
        """The problems, sorted by line; of one line, errors first."""
        return tuple(sorted(self._problems, key=lambda problem: (problem.line, problem.level is ProblemLevel.WARNING)))


@contextlib.contextmanager
def few_guesses() -> Iterator[None]:
    """Inside this `with` block, `meant` searches at most MAX_GUESSES times."""
    token = _left.set(iter(range(MAX_GUESSES)))
    try:
        yield
    finally:
        _left.reset(token)


def meant(name: str, known: Iterable[str]) -> str:
    """The sentence ` Did you mean …?` with the known name that is most similar to `name`. Empty if none is similar, or if this function was
    called more than MAX_GUESSES times inside one block of `few_guesses`."""
    left = _left.get()
    if left is not None and next(left, None) is None:
        return ""
    spelled = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name[:_SHOWN_CHARACTERS].lower(), list(spelled), n=1, cutoff=0.7)
    return f" Did you mean `{spelled[near[0]]}`?" if near else ""


def shown(value: object, most: int = _SHOWN_CHARACTERS) -> str:
    """The beginning of an author's value, at most `most` characters, on one line and without control characters."""
    text = printable(value if isinstance(value, str) else repr(value))
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    """The text on one line: each character that cannot be printed becomes U+FFFD. Messages may contain text of a page."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)
