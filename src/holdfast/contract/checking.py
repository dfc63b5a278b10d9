"""Checks values against a JSON Schema of draft 2020-12. Formats are checked, too. References may lead only to parts of the schema itself,
so there is no network access.

A value that fits is read once, by native code. Only a value that does not fit is read again, to tell where and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, cast

import jsonschema_rs
import msgspec

from holdfast.contract.costs import LISTED_IN_PLACE, LISTED_PATIENTLY, cost_of
from holdfast.contract.costs import SchemaInvalid as SchemaInvalid
from holdfast.contract.costs import pointer as pointer
from holdfast.contract.redaction import Redaction, Schema, has_marks
from holdfast.model import codec

MAX_MISMATCHES = 50
MAX_VALUE_CHARACTERS = 200
MAX_DEPTH = 200
"""If a value does not fit and has more levels than this, no places are listed: there is one mismatch, which says that the value is nested
too deep."""
_KEPT_VALIDATORS = 512
_LINEAR = jsonschema_rs.RegexOptions(size_limit=128 * 1024, dfa_size_limit=1024 * 1024)
"""The options for patterns. They allow no look-around and no back references, so the time of a match is proportional to the length of the
text."""


class Mismatch(msgspec.Struct, frozen=True):
    """One place where a value breaks a schema."""

    path: str
    """A JSON pointer into the value; empty for the value itself."""
    reason: str
    value: str
    """The beginning of the value at this place as JSON, without the parts that the schema marks as secret."""


class Checker:
    """A compiled schema. Making one raises `SchemaInvalid` if the schema is not valid, or is above a limit."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.cost = cost_of(schema)
        self._marked = has_marks(schema)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                cast(Any, schema), validate_formats=True, offline=True, mask="the value", pattern_options=_LINEAR
            )
        except jsonschema_rs.ValidationError as error:
            raise _invalid(error) from None
        except (jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
            raise SchemaInvalid((), str(error)) from None

    def fits(self, value: Any) -> bool:
        """Whether the value fits the schema. False for a value that is not JSON, if the schema reads a part that is not JSON; other parts
        are not looked at."""
        return not self.problems(value)

    def problems(self, value: Any, *, patient: bool = False) -> tuple[Mismatch, ...]:
        """The places where the value does not fit the schema, at most MAX_MISMATCHES; empty if it fits. A value with a part that is not
        JSON and that the schema reads, or a value that does not fit and is nested too deep, gives one mismatch that says so.

        Finding all places takes many times as long as finding the first one. If it could take too long, only the first place is returned.
        With `patient`, it may take longer: use `patient` only in a process that can be ended.
        """
        try:
            if self._validator.is_valid(value):
                return ()
            if codec.too_deep(value, MAX_DEPTH):
                return (Mismatch("", f"the value does not fit, and is nested more than {MAX_DEPTH} levels deep", ""),)
            shown = Redaction(self.schema).redacted(value) if self._marked else value
            return tuple(islice(self._mismatches(value, shown, patient), MAX_MISMATCHES))
        except (TypeError, ValueError, RecursionError, UnicodeError) as error:
            return (Mismatch("", f"the value is not JSON: {error}"[:MAX_VALUE_CHARACTERS], ""),)

    def valid(self, value: Any) -> bool:
        """Whether the value fits the schema. For a value that does not fit, this is faster than `fits`. If the schema reads a part that is
        not JSON, this raises an error, while `fits` returns False."""
        return bool(self._validator.is_valid(value))

    def _mismatches(self, value: Any, shown: Any, patient: bool) -> Iterator[Mismatch]:
        steps = LISTED_IN_PLACE + 1 if self.cost.unbounded else self.cost.steps(size_of(value).places, 0)
        errors = self._validator.iter_errors(value) if steps <= (LISTED_PATIENTLY if patient else LISTED_IN_PLACE) else self._first(value)
        for error in errors:
            path = error.instance_path
            yield Mismatch(pointer(path), _reason(error), brief(_at(shown, path)))

    def _first(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            yield error


class Size(msgspec.Struct, frozen=True):
    """The size of a value: an upper bound of how many values it contains, itself included (`places`), and its JSON text. For a value
    that is not plain JSON, `places` is LISTED_IN_PLACE + 1, which is above the limit for listing all mismatches at once."""

    places: int
    text: bytes
    """The value as JSON; empty for a value that is not plain JSON."""


def size_of(value: Any) -> Size:
    """The size of a value. To find it, the value is written as JSON once."""
    try:
        text = codec.compact(value)
    except (TypeError, ValueError, RecursionError):
        return Size(LISTED_IN_PLACE + 1, b"")
    return sized(text)


def sized(text: bytes) -> Size:
    """The size of the value in a JSON text."""
    return Size(1 + text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{"), text)


def _invalid(error: jsonschema_rs.ValidationError) -> SchemaInvalid:
    if error.message.endswith('not a "regex"'):
        return SchemaInvalid(
            error.instance_path, "the pattern is not a regular expression, or cannot be matched in linear time", "schema_pattern"
        )
    return SchemaInvalid(error.instance_path, error.message)


def problems_of(value: Any, schema: Schema) -> tuple[Mismatch, ...]:
    """The places where a value does not fit a schema, as `Checker.problems` returns them; empty if it fits. The compiled schema is kept for
    later calls. Raises SchemaInvalid if the schema is not valid, or is above a limit."""
    return checker_of(schema).problems(value)


def told_of(problems: Sequence[Mismatch]) -> str:
    """All mismatches as one text, on one line."""
    return "; ".join(f"{problem.path or '/'}: {problem.reason}" for problem in problems)


def checker_of(schema: Schema) -> Checker:
    """The compiled schema. It is cached by its text, so equal schemas share one. Raises SchemaInvalid if the schema is not valid, or is
    above a limit."""
    return _compiled(msgspec.json.encode(schema))


@lru_cache(maxsize=_KEPT_VALIDATORS)
def _compiled(text: bytes) -> Checker:
    return Checker(msgspec.json.decode(text))


def brief(value: Any) -> str:
    """A value as JSON, cut to MAX_VALUE_CHARACTERS characters; if it is cut, it ends in `…`. The rest of the value is not encoded."""
    text, clipped = "", _clipped(value, [MAX_VALUE_CHARACTERS + 1])
    for chunk in json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_typed).iterencode(clipped):
        text += chunk
        if len(text) > MAX_VALUE_CHARACTERS:
            return text[: MAX_VALUE_CHARACTERS - 1] + "…"
    return text


def _clipped(value: Any, left: list[int]) -> Any:
    """The beginning of a value: its first parts and texts, at any depth, until `left[0]` is used up. Each part lowers `left[0]` by 1, and
    each text also by its length, so a large value is not read as a whole."""
    left[0] -= 1
    if isinstance(value, str):
        text = value[: MAX_VALUE_CHARACTERS + 1]
        left[0] -= len(text)
        return text
    if isinstance(value, dict):
        found: dict[Any, Any] = {}
        for name, part in value.items():
            if left[0] <= 0:
                break
            found[_clipped(name, left)] = _clipped(part, left)
        return found
    if isinstance(value, list | tuple):
        return [_clipped(part, left) for part in takewhile(lambda _: left[0] > 0, value)]
    return value


def _typed(value: object) -> str:
    return f"<{type(value).__name__}>"


def _at(value: Any, path: Sequence[str | int]) -> Any:
    """The part of a redacted value at this path. If the path leads into a secret: the text that replaces the secret."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _reason(error: jsonschema_rs.ValidationError) -> str:
    return error.message[: 4 * MAX_VALUE_CHARACTERS]
