"""Event patterns, as in EventBridge. A pattern is JSON with the same structure as the event, in which each leaf is a list of the wanted
values.

    {"detail": {"status": ["FAILED", "TIMED_OUT"], "durableExecutionName": [{"prefix": "order-"}]}}

An event matches if every member of the pattern matches. A leaf matches if one value in its list matches. `"$or"` has a list of patterns, of
which at least one must match. Members of the event that the pattern does not name may have any value.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from holdfast.model.errors import PatternInvalid

_MAX_TEXT: Final = 4096
_MAX_DEPTH: Final = 20
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABSENT: Final = object()

EventTest = Callable[[Any], bool]
"""A function that says whether a value of an event matches. It gets `_ABSENT` if the event does not have the value."""


class Pattern:
    """An event pattern: it says which events are wanted."""

    def __init__(self, source: Mapping[str, Any] | str) -> None:
        """`source` is the pattern, as JSON text or as the value of that text. Raises PatternInvalid if it is not valid."""
        if isinstance(source, str):
            source = _read(source)
        self._matches = _object(source, "", 1)

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether this event is wanted."""
        return self._matches(event)


def _read(text: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise PatternInvalid(f"The pattern has {len(text)} characters; at most {_MAX_TEXT} are allowed.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PatternInvalid(f"The pattern cannot be read as JSON: {error}.") from None


def _wrong(path: str, message: str) -> PatternInvalid:
    return PatternInvalid(f"{path or 'The pattern'}: {message}")


def _object(source: Any, path: str, depth: int) -> EventTest:
    if not isinstance(source, Mapping) or not source:
        raise _wrong(path, "must be an object with at least one member.")
    if depth > _MAX_DEPTH:
        raise _wrong(path, f"is nested more than {_MAX_DEPTH} levels deep.")
    members: list[tuple[str, EventTest]] = []
    alternatives: list[EventTest] = []
    for name, wanted in source.items():
        place = f"{path}.{name}" if path else str(name)
        if name == "$or":
            alternatives = _alternatives(wanted, place, depth)
        elif isinstance(wanted, Mapping):
            members.append((name, _object(wanted, place, depth + 1)))
        elif isinstance(wanted, list):
            members.append((name, _leaf(wanted, place)))
        else:
            raise _wrong(place, f"must be an object or a list, not {_kind(wanted)}. Write [{json.dumps(wanted)}] for exactly this value.")

    def matches(value: Any) -> bool:
        objects = [element for element in _flat(value) if isinstance(element, Mapping)]
        if isinstance(value, list) and objects:  # if the event has a list here, one of its elements must match the whole object
            return any(matches(element) for element in objects)
        inside: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        return all(test(inside.get(name, _ABSENT)) for name, test in members) and (
            not alternatives or any(test(inside) for test in alternatives)
        )

    return matches


def _alternatives(wanted: Any, path: str, depth: int) -> list[EventTest]:
    if not isinstance(wanted, list) or len(wanted) < 2:
        raise _wrong(path, "must be a list of at least two patterns.")
    return [_object(each, f"{path}[{number}]", depth + 1) for number, each in enumerate(wanted)]


def _leaf(wanted: list[Any], path: str) -> EventTest:
    if not wanted:
        raise _wrong(path, "must have at least one value: nothing matches an empty list.")
    tests = [_value(each, f"{path}[{number}]") for number, each in enumerate(wanted)]

    def matches(value: Any) -> bool:
        return any(test(element) for element in _flat(value) or [_ABSENT] for test in tests)

    return matches


def _flat(value: Any) -> list[Any]:
    """For a list: its elements, and in place of each list inside it the elements of that list, as one list. For any other value: a list
    with only this value."""
    return [inner for element in value for inner in _flat(element)] if isinstance(value, list) else [value]


def _value(wanted: Any, path: str) -> EventTest:
    if isinstance(wanted, Mapping):
        if len(wanted) != 1:
            raise _wrong(path, f"must have exactly one of {', '.join(_OPERATORS)}.")
        ((name, given),) = wanted.items()
        if name not in _OPERATORS:
            raise _wrong(path, f"there is no operator {name!r}. There are {', '.join(_OPERATORS)}.")
        return _OPERATORS[name](given, f"{path}.{name}")
    if isinstance(wanted, list):
        raise _wrong(path, "must be a value or an operator, not a list.")
    return lambda value: _same(value, wanted)


def _same(value: Any, wanted: Any) -> bool:
    """Whether two JSON values are equal. In JSON, 1 and true are not equal, although they are in Python."""
    return isinstance(value, bool) is isinstance(wanted, bool) and value is not _ABSENT and bool(value == wanted)


def _text(given: Any, path: str) -> str:
    if not isinstance(given, str):
        raise _wrong(path, f"must be a text, not {_kind(given)}.")
    return given


def _folding(given: Any, path: str, compare: Callable[[str, str], bool]) -> EventTest:
    """A test that calls `compare(value, text)`, where `given` is the text. If `given` is `{"equals-ignore-case": text}`, the test treats
    upper and lower case as equal. `path` is the place in the pattern, for the error message."""
    if isinstance(given, Mapping):
        if given.keys() != {"equals-ignore-case"}:
            raise _wrong(path, "must be a text or {'equals-ignore-case': text}.")
        folded = _text(given["equals-ignore-case"], f"{path}.equals-ignore-case").casefold()
        return lambda value: isinstance(value, str) and compare(value.casefold(), folded)
    wanted = _text(given, path)
    return lambda value: isinstance(value, str) and compare(value, wanted)


def _ignoring_case(given: Any, path: str) -> EventTest:
    folded = _text(given, path).casefold()
    return lambda value: isinstance(value, str) and value.casefold() == folded


def _wildcard(given: Any, path: str) -> EventTest:
    parts = _parts(_text(given, path), path)
    if len(parts) == 1:
        return lambda value: _same(value, parts[0])
    return lambda value: isinstance(value, str) and fits_wildcard(value, parts)


def fits_wildcard(text: str, parts: Sequence[str]) -> bool:
    """Whether a text matches a wildcard. `parts` are the texts before, between and after its stars, at least two; a star stands for any
    text. Each part between two stars is searched from the left, and its first place is taken. That leaves the most room for the parts after
    it, so no other place has to be tried."""
    first, *middle, last = parts
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _parts(text: str, path: str) -> list[str]:
    """The texts before, between and after the stars of a wildcard. A star or a backslash that follows a backslash stands for itself. `path`
    is the place in the pattern, for the error message."""
    parts, at = [""], 0
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
            letter = text[at : at + 1]
            if letter not in ("*", "\\"):
                raise _wrong(path, "a backslash must be followed by a star or by another backslash.")
            parts[-1] += letter
        elif letter == "*":
            if text[at + 1 : at + 2] == "*":
                raise _wrong(path, "has two stars in a row; write one.")
            parts.append("")
        else:
            parts[-1] += letter
        at += 1
    return parts


def _anything_but(given: Any, path: str) -> EventTest:
    if isinstance(given, Mapping):
        if len(given) != 1 or (name := next(iter(given))) not in _EXCLUDABLE:
            raise _wrong(path, f"must be a value, a list of values, or one of {', '.join(_EXCLUDABLE)}.")
        inner = given[name]
        each = inner if isinstance(inner, list) else [inner]
        if not each:
            raise _wrong(f"{path}.{name}", "must have at least one value.")
        tests = [_EXCLUDABLE[name](one, f"{path}.{name}") for one in each]
    else:
        values = given if isinstance(given, list) else [given]
        if not values or any(isinstance(value, Mapping | list) or value is None or isinstance(value, bool) for value in values):
            raise _wrong(path, "must be a text, a number, or a list of these with at least one.")
        tests = [_value(value, path) for value in values]
    return lambda value: value is not _ABSENT and not isinstance(value, Mapping) and not any(test(value) for test in tests)


def _exists(given: Any, path: str) -> EventTest:
    if not isinstance(given, bool):
        raise _wrong(path, f"must be true or false without quotes; it is {_kind(given)}.")
    return lambda value: (value is not _ABSENT and not isinstance(value, Mapping)) is given


def _numeric(given: Any, path: str) -> EventTest:
    if not isinstance(given, list) or len(given) not in (2, 4):
        raise _wrong(path, 'must be a list such as [">", 0] or [">=", 0, "<", 5].')
    bounds: list[tuple[Callable[[Any, Any], bool], Any]] = []
    for number in range(0, len(given), 2):
        name, bound = given[number], given[number + 1]
        if not isinstance(name, str) or name not in _COMPARISONS:
            raise _wrong(f"{path}[{number}]", f"must be one of {', '.join(_COMPARISONS)}.")
        if not _is_number(bound):
            raise _wrong(f"{path}[{number + 1}]", f"must be a number, not {_kind(bound)}.")
        bounds.append((_COMPARISONS[name], bound))
    return lambda value: _is_number(value) and all(compare(value, bound) for compare, bound in bounds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


_OPERATORS: Final[Mapping[str, Callable[[Any, str], EventTest]]] = {
    "prefix": partial(_folding, compare=str.startswith),
    "suffix": partial(_folding, compare=str.endswith),
    "anything-but": _anything_but,
    "exists": _exists,
    "numeric": _numeric,
    "equals-ignore-case": _ignoring_case,
    "wildcard": _wildcard,
}
_EXCLUDABLE: Final = {name: _OPERATORS[name] for name in ("prefix", "suffix", "equals-ignore-case", "wildcard")}
