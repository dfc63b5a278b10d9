"""Filter patterns of CloudWatch Logs: words that a record must contain, or comparisons of its members. Pure.

    ERROR "not found" -retry          the record contains ERROR and "not found", and does not contain "retry"
    ?ERROR ?WARN                      the record contains ERROR or WARN
    { ($.level = "ERROR" || $.attempt > 2) && $.executionArn = "*/order-42/*" }

A pattern that cannot be parsed is refused. Words match anywhere in a record, and upper and lower case differ.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.model.errors import PatternInvalid
from holdfast.signals.patterns import fits_wildcard

MAX_CHARACTERS: Final = 1024
_MAX_DEPTH: Final = 40
_MOST_FOUND: Final = 1_000
"""One comparison reads at most this many members of a record: a * in its path may match very many."""
_TERM: Final = re.compile(
    r'(?P<sign>[?-]?)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[\w./:@#=,;\'+&~^$][\w./:@#=,;\'+&~^$?-]*))(?=\s|$)', re.S
)
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<selector>\$(?:\.[\w-]+|\.\*|\[(?:\d{1,9}|\*)\]|\[(?:'[^']*'|"[^"]*")\])+)
      | (?P<mark>\(|\)|&&|\|\||!=|<=|>=|=|<|>)
      | "(?P<quoted>(?:[^"\\]|\\.)*)"
      | (?P<bare>[\w.*:/@\#+-]+)
    )\s*""",
    re.X | re.S,
)
_STEP: Final = re.compile(r"\.([\w-]+|\*)|\[(\d+|\*)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

LineTest = Callable[[Any], bool]


class FilterPattern:
    """Decides which records match the pattern `text`. Raises PatternInvalid if the text is too long or cannot be parsed."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise PatternInvalid(f"The filter pattern has {len(text)} characters; at most {MAX_CHARACTERS} are allowed.")
        self._text = text.strip()
        if self._text.startswith("{"):
            self._json: LineTest | None = _Comparisons(self._text).read()
        else:
            self._json = None
            self._terms = _terms(self._text)

    def matches(self, record: str) -> bool:
        """Whether a record, which is a JSON text, matches the pattern. An empty pattern matches every record."""
        if self._json is not None:
            value = _decoded(record)
            return isinstance(value, dict) and self._json(value)
        return not self._text or self._terms.match(record)


# --- words


class _Terms(NamedTuple):
    needed: tuple[str, ...]
    one_of: tuple[str, ...]
    without: tuple[str, ...]

    def match(self, record: str) -> bool:
        texts = (record, *_message(record)) if "\\" in record else (record,)  # search also the message without its JSON escapes

        def has(term: str) -> bool:
            return any(term in text for text in texts)

        return (
            all(map(has, self.needed)) and not any(map(has, self.without)) and (not self.one_of or any(map(has, self.one_of)))
        )  # fmt: skip


def _terms(text: str) -> _Terms:
    found: dict[str, list[str]] = {"": [], "?": [], "-": []}
    at = 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise PatternInvalid(
                f"The filter pattern cannot be read at {text[at : at + 20]!r}. "
                'Write words, "quoted words", ?either ?or, -not, or { $.member = "value" }. '
                "Regular expressions and [columns] are not supported. Write a word with other characters in quotes."
            )
        words = _unquoted(term["quoted"]) if term["quoted"] is not None else term["bare"]
        if not words:
            raise PatternInvalid('The filter pattern has an empty word: "".')
        found[term["sign"]].append(words)
        at = term.end()
        while at < len(text) and text[at].isspace():
            at += 1
    return _Terms(tuple(found[""]), tuple(found["?"]), tuple(found["-"]))


def _message(record: str) -> Iterator[str]:
    value = _decoded(record)
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        yield value["message"]


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.S)


def _decoded(record: str) -> Any:
    try:
        return msgspec.json.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return None


# --- comparisons


class _Comparisons:
    """Parses `{ … }`: comparisons that are joined by && and ||, and parentheses. && binds more closely than ||."""

    def __init__(self, text: str) -> None:
        if not text.endswith("}"):
            raise PatternInvalid("The filter pattern begins with { and must end with }.")
        self._tokens = list(_tokens(text[1:-1]))
        self._at = 0

    def read(self) -> LineTest:
        test = self._either(0)
        if self._at < len(self._tokens):
            raise PatternInvalid(f"The filter pattern should end before {self._tokens[self._at].text!r}, or && or || is missing there.")
        return test

    def _either(self, depth: int) -> LineTest:
        tests = [self._both(depth)]
        while self._took("||"):
            tests.append(self._both(depth))
        return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)

    def _both(self, depth: int) -> LineTest:
        tests = [self._one(depth)]
        while self._took("&&"):
            tests.append(self._one(depth))
        return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)

    def _one(self, depth: int) -> LineTest:
        if depth > _MAX_DEPTH:
            raise PatternInvalid(f"The filter pattern has too many parentheses inside each other; at most {_MAX_DEPTH} are allowed.")
        if self._took("("):
            test = self._either(depth + 1)
            if not self._took(")"):
                raise PatternInvalid("The filter pattern has a ( without its ).")
            return test
        chosen = self._next("a member such as $.level")
        if chosen.kind != "selector":
            raise PatternInvalid(f"The filter pattern has {chosen.text!r} where a member such as $.level should be.")
        return _of_member(_path(chosen.text), self._comparison())

    def _comparison(self) -> LineTest:
        mark = self._next("a comparison")
        if mark.kind == "bare" and mark.text.upper() in ("IS", "NOT"):
            return self._in_words(mark.text.upper())
        if mark.kind != "mark" or mark.text not in ("=", "!=", *_ORDERS):
            raise PatternInvalid(f"The filter pattern has {mark.text!r} where =, !=, <, <=, >, >=, IS or NOT EXISTS should be.")
        given = self._next("a value")
        if given.kind not in ("quoted", "bare"):
            raise PatternInvalid(f"The filter pattern has {given.text!r} where a value should be. If it is a value, write it in quotes.")
        number = float(given.text) if given.kind == "bare" and _NUMBER.fullmatch(given.text) else None
        if mark.text in _ORDERS:
            if number is None:
                why = "a text, because it is in quotes" if given.kind == "quoted" else "not a number"
                raise PatternInvalid(f"{given.text!r} is {why}, and {mark.text} compares numbers.")
            return _compares(_ORDERS[mark.text], number)
        same = _equal(given.text) if number is None else _compares(operator.eq, number)
        return same if mark.text == "=" else lambda value: _is_scalar(value) and not same(value)

    def _in_words(self, first: str) -> LineTest:
        second = self._next("NULL, TRUE, FALSE or EXISTS").text.upper()
        wanted = {("IS", "NULL"): None, ("IS", "TRUE"): True, ("IS", "FALSE"): False, ("NOT", "EXISTS"): _ABSENT}
        if (first, second) not in wanted:
            raise PatternInvalid(f"The filter pattern has {first} {second}; there are IS NULL, IS TRUE, IS FALSE and NOT EXISTS.")
        one = wanted[first, second]
        return lambda value: value is one

    def _next(self, what: str) -> _Token:
        if self._at >= len(self._tokens):
            raise PatternInvalid(f"The filter pattern ends where {what} should be.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _took(self, mark: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == _Token("mark", mark):
            self._at += 1
            return True
        return False


class _Token(NamedTuple):
    kind: str
    text: str


class _Absent:
    """Stands for a member that does not exist."""


_ABSENT: Final = _Absent()


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise PatternInvalid(f"The filter pattern cannot be read at {text[at : at + 20]!r}. Regular expressions are not supported.")
        kind = found.lastgroup
        yield _Token(kind, _unquoted(found[kind]) if kind == "quoted" else found[kind])
        at = found.end()


def _path(selector: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    for step in _STEP.finditer(selector):
        member, index, single, double = step.groups()
        if index is not None:
            steps.append("*" if index == "*" else int(index))
        else:
            steps.append(next(name for name in (member, single, double) if name is not None))
    return tuple(steps)


def _of_member(path: tuple[str | int, ...], test: LineTest) -> LineTest:
    return lambda value: any(map(test, islice(_found(value, path), _MOST_FOUND)))


def _found(value: Any, path: tuple[str | int, ...]) -> Iterator[Any]:
    """The values at a path: one value, or several if the path has a *. A place at which there is no value gives _ABSENT."""
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    inside: list[Any] = []
    if step == "*" and isinstance(value, dict | list):
        inside = list(value.values()) if isinstance(value, dict) else value
    elif isinstance(value, dict):
        inside = [value[step]] if step in value else []
    elif isinstance(value, list) and isinstance(step, int):
        inside = value[step : step + 1]
    if not inside:
        yield _ABSENT
    for one in inside:
        yield from _found(one, rest)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _compares(compare: Callable[[Any, Any], bool], bound: float) -> LineTest:
    return lambda value: _is_number(value) and compare(value, bound)


def _equal(wanted: str) -> LineTest:
    if "*" in wanted:
        parts = wanted.split("*")
        return lambda value: isinstance(value, str) and fits_wildcard(value, parts)
    return lambda value: (isinstance(value, str) and value == wanted) or (isinstance(value, bool) and str(value).lower() == wanted)
