"""Removes secrets from values: a place that a schema marks with `"writeOnly": true` or `"x-redact": true` is replaced by a placeholder.

Only the schemas from which a mark can be reached are read, and only up to a number of steps: a value that would need more is replaced as a
whole. Secrets inside texts and log lines are found by `workers/tools/secrets.py` and `workers/input_secrets.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from holdfast.contract.patterns import matcher
from holdfast.contract.schema_references import References

Schema = Mapping[str, Any] | bool
REDACTED = "[redacted]"
MAX_STEPS: Final = 20_000
"""At most this many places and schemas are visited for one value. If more are needed, the whole value is treated as a secret."""
_MARKS = ("writeOnly", "x-redact")
_ALL_OF_MANY = ("allOf", "anyOf", "oneOf")
_SAME_PLACE = ("if", "then", "else", "not")


def has_marks(schema: Any) -> bool:
    """Whether a schema marks anything as secret. Most schemas mark nothing; then values need not be searched for secrets."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if any(part.get(mark) is True for mark in _MARKS):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def redacted(value: Any, schema: Schema) -> Any:
    """A copy of the value in which a placeholder replaces every marked place. If this takes more than MAX_STEPS steps, or the value is
    nested too deep, the placeholder replaces the whole value.

    A place is marked if any schema that might apply to it marks it. All branches of an `anyOf` are read, because a secret in a value that
    fits no branch is still a secret.
    """
    return Redaction(schema).redacted(value)


class _TooLong(Exception):
    """More than MAX_STEPS places and schemas would have to be visited."""


class Redaction:
    """Replaces the secrets in values, by the marks of one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references = References(root)
        self._together: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
        self._steps = 0

    def redacted(self, value: Any) -> Any:
        """A copy of the value in which a placeholder replaces every marked place. If this takes more than MAX_STEPS steps, or the value is
        nested too deep, the placeholder replaces the whole value."""
        self._steps = 0
        try:
            return self._at(value, (self._root,))
        except (_TooLong, RecursionError):
            return REDACTED

    def _at(self, value: Any, schemas: Iterable[Any]) -> Any:
        starting = [part for part in schemas if id(part) in self._reaching]
        if not starting:
            return value
        here = self._applying(starting)
        self._step(1 + len(here))
        if any(part.get(mark) is True for part in here for mark in _MARKS):
            return REDACTED
        if isinstance(value, dict):
            return {key: self._at(item, self._of_property(here, str(key))) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._at(item, _of_item(here, index)) for index, item in enumerate(value)]
        return value

    def _step(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise _TooLong

    def _applying(self, starting: list[Any]) -> list[Mapping[str, Any]]:
        """The schemas in `starting`, and every schema that they apply to the same place of the value: through references, and through
        keywords such as `allOf`."""
        key = tuple(map(id, starting))
        if key not in self._together:
            found: dict[int, Mapping[str, Any]] = {}
            waiting = list(starting)
            while waiting:
                part = waiting.pop()
                if isinstance(part, Mapping) and id(part) not in found:
                    self._step(1)
                    found[id(part)] = part
                    waiting.extend(self._beside(part))
            self._together[key] = list(found.values())
        return self._together[key]

    def _beside(self, part: Mapping[str, Any]) -> Iterator[Any]:
        """The schemas inside this one, and at its references, that apply to the same place of the value and not to a place inside it."""
        for word in _ALL_OF_MANY:
            if isinstance(part.get(word), list):
                yield from part[word]
        yield from (part[word] for word in _SAME_PLACE if word in part)
        if isinstance(part.get("dependentSchemas"), Mapping):
            yield from part["dependentSchemas"].values()
        for word in ("$ref", "$dynamicRef"):
            if isinstance(part.get(word), str):
                yield from (found.part for found in self._references.found(part[word]))

    @cached_property
    def _reaching(self) -> frozenset[int]:
        """The ids of the schemas from which a mark can be reached. A value to which only other schemas apply has no secret."""
        above: dict[int, list[int]] = {}
        marked: list[int] = []
        seen = set[int]()
        waiting: list[Any] = [self._root]
        while waiting:
            part = waiting.pop()
            if id(part) in seen or not isinstance(part, Mapping | list):
                continue
            seen.add(id(part))
            if isinstance(part, list):
                below = list(part)
            else:
                if any(part.get(mark) is True for mark in _MARKS):
                    marked.append(id(part))
                below = [*part.values(), *self._beside(part)]
            for one in below:
                above.setdefault(id(one), []).append(id(part))
            waiting.extend(below)
        reaching = set[int]()
        while marked:
            at = marked.pop()
            if at not in reaching:
                reaching.add(at)
                marked.extend(above.get(at, ()))
        return frozenset(reaching)

    def _of_property(self, here: list[Mapping[str, Any]], key: str) -> Iterator[Any]:
        for part in here:
            properties = part.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                yield properties[key]
            patterns = part.get("patternProperties")
            if isinstance(patterns, Mapping):
                self._step(len(patterns) * (1 + len(key) // _KEY_CHARACTERS))
                yield from (schema for pattern, schema in patterns.items() if _might_match(pattern, key))
            yield from (part[word] for word in ("additionalProperties", "unevaluatedProperties") if word in part)


_KEY_CHARACTERS: Final = 32


def _might_match(pattern: str, key: str) -> bool:
    """Whether a pattern matches a key. True if the pattern cannot be used: it is safer to show too little."""
    found = matcher(pattern)
    return found is None or found.search(key) is not None


def _of_item(here: list[Mapping[str, Any]], index: int) -> Iterator[Any]:
    for part in here:
        prefix = part.get("prefixItems")
        if isinstance(prefix, list) and index < len(prefix):
            yield prefix[index]
        yield from (part[word] for word in ("items", "contains", "unevaluatedItems") if word in part)
