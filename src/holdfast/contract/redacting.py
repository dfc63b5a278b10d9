"""Values without their secrets: what a schema marks with `"writeOnly": true` or `"x-redact": true` is not shown to anybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any] | bool
REDACTED = "[redacted]"
_MARKS = ("writeOnly", "x-redact")
_ALL_OF_MANY = ("allOf", "anyOf", "oneOf")
_SAME_PLACE = ("if", "then", "else", "not")


def has_marks(schema: Any) -> bool:
    """Whether a schema marks anything: most do not, and then nothing has to be walked."""
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
    """A copy of the value in which every marked place says so instead of what it holds.

    A place is marked if any schema that might apply to it marks it: which branch of an `anyOf` holds is not asked, for a secret in a
    value that fits none of them is still a secret.
    """
    return _Walk(schema).redacted(value, (schema,))


class _Walk:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def redacted(self, value: Any, schemas: Iterable[Any]) -> Any:
        here = list(self._applying(schemas))
        if any(part.get(mark) is True for part in here for mark in _MARKS):
            return REDACTED
        if isinstance(value, dict):
            return {key: self.redacted(item, _of_property(here, str(key))) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redacted(item, _of_item(here, index)) for index, item in enumerate(value)]
        return value

    def _applying(self, schemas: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
        """Every schema that speaks of the same place: through references and the keywords that only combine."""
        waiting, seen = list(schemas), set[int]()
        while waiting:
            part = waiting.pop()
            if not isinstance(part, Mapping) or id(part) in seen:
                continue
            seen.add(id(part))
            yield part
            waiting.extend(x for word in _ALL_OF_MANY if isinstance(part.get(word), list) for x in part[word])
            waiting.extend(part[word] for word in _SAME_PLACE if word in part)
            if isinstance(part.get("dependentSchemas"), Mapping):
                waiting.extend(part["dependentSchemas"].values())
            for word in ("$ref", "$dynamicRef"):
                if isinstance(part.get(word), str):
                    waiting.extend(found(self._root, part[word]))


def found(root: Schema, reference: str) -> list[Any]:
    """What a reference inside the document leads to: a pointer (`#/$defs/a`), an anchor (`#a`) or an `$id`."""
    place, _, fragment = reference.partition("#")
    start = [root] if not place else [part for part in _subschemas(root) if part.get("$id") == place]
    if not fragment:
        return start
    if not fragment.startswith("/"):
        return [part for base in start for part in _subschemas(base) if fragment in (part.get("$anchor"), part.get("$dynamicAnchor"))]
    return [part for base in start for part in _pointed(base, fragment)]


def _pointed(base: Any, fragment: str) -> list[Any]:
    for part in fragment.split("/")[1:]:
        key = _unquoted(part).replace("~1", "/").replace("~0", "~")
        if isinstance(base, Mapping) and key in base:
            base = base[key]
        elif isinstance(base, list) and key.isdecimal() and int(key[:9]) < len(base):
            base = base[int(key[:9])]
        else:
            return []
    return [base]


def _unquoted(text: str) -> str:
    return re.sub(r"%([0-9a-fA-F]{2})", lambda hit: chr(int(hit.group(1), 16)), text)


def _subschemas(root: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _of_property(here: list[Mapping[str, Any]], key: str) -> Iterator[Any]:
    for part in here:
        properties = part.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            yield properties[key]
        patterns = part.get("patternProperties")
        if isinstance(patterns, Mapping):
            yield from (schema for pattern, schema in patterns.items() if _might_match(pattern, key))
        yield from (part[word] for word in ("additionalProperties", "unevaluatedProperties") if word in part)


def _might_match(pattern: str, key: str) -> bool:
    """When in doubt, yes: patterns are ECMAScript's, and showing too little is the safe mistake."""
    try:
        return re.search(pattern, key) is not None
    except (re.error, RecursionError, OverflowError):
        return True


def _of_item(here: list[Mapping[str, Any]], index: int) -> Iterator[Any]:
    for part in here:
        prefix = part.get("prefixItems")
        if isinstance(prefix, list) and index < len(prefix):
            yield prefix[index]
        yield from (part[word] for word in ("items", "contains", "unevaluatedItems") if word in part)
