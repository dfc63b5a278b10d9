"""Is a value what a schema promises? JSON Schema draft 2020-12, formats checked, references inside the document only, no network.

A value that fits costs one pass in native code; only one that does not is looked at again, to say where and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, cast

import jsonschema_rs
import msgspec

from holdfast.contract.redacting import Schema, has_marks, redacted
from holdfast.model import codec

MAX_MISMATCHES = 50
MAX_VALUE_CHARACTERS = 200
MAX_DEPTH = 200
"""A value that does not fit and is deeper than this is not walked to say why."""
_KEPT_VALIDATORS = 512


class Mismatch(msgspec.Struct, frozen=True):
    """One place where a value breaks a schema."""

    path: str
    """A JSON pointer into the value; empty for the value itself."""
    reason: str
    value: str
    """The value there as JSON, its beginning only, without what the schema marks as secret."""


class SchemaInvalid(Exception):
    """The schema itself is no draft 2020-12 schema. Pages with one are refused, so this never reaches a user of a Contract."""

    def __init__(self, path: Sequence[str | int], reason: str) -> None:
        self.path = tuple(str(part) for part in path)
        self.reason = reason
        super().__init__(f"{pointer(path)}: {reason}" if path else reason)


class Checker:
    """A schema, compiled."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._marked = has_marks(schema)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(cast(Any, schema), validate_formats=True, offline=True, mask="the value")
        except jsonschema_rs.ValidationError as error:
            raise SchemaInvalid(error.instance_path, error.message) from None
        except (jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
            raise SchemaInvalid((), str(error)) from None

    def fits(self, value: Any) -> bool:
        """Whether the value is what the schema promises."""
        return not self.problems(value)

    def problems(self, value: Any) -> tuple[Mismatch, ...]:
        """Every place where the value breaks the schema, up to a bound; nothing if it fits."""
        try:
            if self._validator.is_valid(value):
                return ()
            if codec.too_deep(value, MAX_DEPTH):
                return (Mismatch("", f"the value does not fit, and is nested more than {MAX_DEPTH} levels deep", ""),)
            shown = redacted(value, self._schema) if self._marked else value
            return tuple(islice(self._mismatches(value, shown), MAX_MISMATCHES))
        except (TypeError, ValueError, RecursionError, UnicodeError) as error:
            return (Mismatch("", f"the value is not JSON: {error}"[:MAX_VALUE_CHARACTERS], ""),)

    def _mismatches(self, value: Any, shown: Any) -> Iterator[Mismatch]:
        for error in self._validator.iter_errors(value):
            path = error.instance_path
            yield Mismatch(pointer(path), _reason(error), brief(_at(shown, path)))


def problems_of(value: Any, schema: Schema) -> tuple[Mismatch, ...]:
    """Where a value breaks a schema; nothing if it fits. The compiled schema is kept for the next time."""
    return checker_of(schema).problems(value)


def told_of(problems: Sequence[Mismatch]) -> str:
    """All of them in one line."""
    return "; ".join(f"{problem.path or '/'}: {problem.reason}" for problem in problems)


def checker_of(schema: Schema) -> Checker:
    """The compiled schema. It is found again by its text, so equal schemas share one."""
    return _compiled(msgspec.json.encode(schema))


@lru_cache(maxsize=_KEPT_VALIDATORS)
def _compiled(text: bytes) -> Checker:
    return Checker(msgspec.json.decode(text))


def pointer(path: Sequence[str | int]) -> str:
    """A path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def brief(value: Any) -> str:
    """The beginning of a value as JSON; never more of it is written than is shown."""
    text = ""
    for chunk in json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_typed).iterencode(_clipped(value)):
        text += chunk
        if len(text) > MAX_VALUE_CHARACTERS:
            return text[: MAX_VALUE_CHARACTERS - 1] + "…"
    return text


def _clipped(value: Any) -> Any:
    return value[: MAX_VALUE_CHARACTERS + 1] if isinstance(value, str) else value


def _typed(value: object) -> str:
    return f"<{type(value).__name__}>"


def _at(value: Any, path: Sequence[str | int]) -> Any:
    """The value at a path of its redacted copy: what stands in for a secret has nothing inside it."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _reason(error: jsonschema_rs.ValidationError) -> str:
    return error.message[: 4 * MAX_VALUE_CHARACTERS]
