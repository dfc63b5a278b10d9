"""Finds the parts of a schema that its references lead to: pointers (`#/$defs/a`), anchors (`#a`) and `$id`s. The schema is read once for
all references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

SchemaPath = tuple[str, ...]


class SchemaPart(NamedTuple):
    """A part of a schema, and its path."""

    part: Any
    path: SchemaPath


class References:
    """The references of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = SchemaPart(root, ())

    def found(self, reference: str) -> list[SchemaPart]:
        """The parts of the schema that a reference leads to; empty if it leads to none."""
        document, _, fragment = reference.partition("#")
        start = [self._root] if not document else self._named.get(("$id", document), [])
        if not fragment:
            return start
        if fragment.startswith("/"):
            path = tuple(_unescaped(step) for step in fragment.split("/")[1:])
            return [SchemaPart(part, (*base.path, *path)) for base in start for part in _pointed(base.part, path)]
        if not document:
            return self._named.get(("$anchor", fragment), [])
        return [found for found in self._named.get(("$anchor", fragment), []) if any(_inside(found.path, base.path) for base in start)]

    @cached_property
    def _named(self) -> dict[tuple[str, str], list[SchemaPart]]:
        """The parts with a name, by the kind of the name (`$id` or `$anchor`) and the name."""
        named: dict[tuple[str, str], list[SchemaPart]] = {}
        waiting = [self._root]
        while waiting:
            found = waiting.pop()
            if isinstance(found.part, Mapping):
                for kind, name in _names(found.part):
                    named.setdefault((kind, name), []).append(found)
                waiting.extend(
                    SchemaPart(below, (*found.path, str(key))) for key, below in found.part.items() if isinstance(below, Mapping | list)
                )
            elif isinstance(found.part, list):
                waiting.extend(
                    SchemaPart(below, (*found.path, str(at))) for at, below in enumerate(found.part) if isinstance(below, Mapping | list)
                )
        return named


def _names(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for word, kind in (("$id", "$id"), ("$anchor", "$anchor"), ("$dynamicAnchor", "$anchor")):
        if isinstance(part.get(word), str):
            yield kind, part[word]


def _inside(path: SchemaPath, base: SchemaPath) -> bool:
    return path[: len(base)] == base


def _pointed(base: Any, path: SchemaPath) -> list[Any]:
    for key in path:
        if isinstance(base, Mapping) and key in base:
            base = base[key]
        elif isinstance(base, list) and key.isdecimal() and int(key[:9]) < len(base):
            base = base[int(key[:9])]
        else:
            return []
    return [base]


def _unescaped(step: str) -> str:
    if "%" in step:
        first, *parts = step.split("%")
        step = first + "".join(map(_character, parts))
    return step.replace("~1", "/").replace("~0", "~")


def _character(part: str) -> str:
    try:
        return chr(int(part[:2], 16)) + part[2:] if len(part) >= 2 and part[:2].isalnum() else f"%{part}"
    except ValueError:
        return f"%{part}"
