"""How much work a schema can cause: counted before the schema is compiled, by following its references. This file has the limits of
schemas.

A place is a schema inside the schema, or a value inside a value. A schema with n places can cause 2ⁿ evaluations, if each definition refers
twice to the next one. Each place is counted once, and its count is used for every reference that leads to it, so counting takes no longer
than reading.

    evaluations   how many places of the schema are evaluated for one place of a value: a value of m places takes at most m times as many
    numbers       how many more steps `multipleOf` takes for one place of a value; the division is exact for numbers of any length
    text          how many steps patterns and formats take for one character of a text
    unbounded     whether the work can grow faster than the value: such a schema is evaluated in a process that can be ended
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.contract.groups import grouped
from holdfast.contract.patterns import MAX_CHARACTERS, program_size
from holdfast.contract.schema_references import References, SchemaPath
from holdfast.model import codec

MAX_BYTES: Final = 64 * 1024
"""A schema has at most this many bytes as JSON."""
MAX_DEPTH: Final = 60
"""A schema is nested at most this many levels deep, as written."""
MAX_CHAIN: Final = 200
"""When references are followed, a schema is nested at most this many levels deep."""
MAX_EVALUATIONS: Final = 100_000
"""When references are followed, a schema has at most this many places to evaluate."""
MAX_PATTERNS: Final = 100
IN_PLACE: Final = 100_000
"""The most steps of a check on the event loop. They take a few milliseconds, in which all other work of the event loop waits."""
LISTED_IN_PLACE: Final = 1_000
"""The most steps of a check on the event loop that lists all places where a value does not fit. Each of its steps takes many times as long
as a step of a check that only says yes or no."""
LISTED_PATIENTLY: Final = 50_000
"""The most steps of a check that lists all places where a value does not fit, in a process that can be ended. They take a second or two."""

ONE: Final = (
    "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems", "contains", "propertyNames", "if", "then", "else",
    "not", "contentSchema",
)  # fmt: skip
MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED: Final = ("properties", "patternProperties", "$defs", "dependentSchemas")
_SAME_PLACE: Final = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "$ref"))
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_UNIQUE_STEPS: Final = 40
_FORMAT_STEPS: Final = 20
_MULTIPLE_STEPS: Final = 1_500


class SchemaInvalid(Exception):
    """The schema is not a valid draft 2020-12 schema, or it is above a limit. `code` says which: `schema_invalid`, `schema_too_large`,
    `schema_too_deep`, `schema_too_costly`, or `schema_pattern` for a pattern that cannot be used or is too long, and for too many
    patterns."""

    def __init__(self, path: Sequence[str | int], reason: str, code: str = "schema_invalid") -> None:
        self.path = tuple(str(part) for part in path)
        self.reason = reason
        self.code = code
        super().__init__(f"{pointer(path)}: {reason}" if path else reason)


class Cost(msgspec.Struct, frozen=True):
    """How much work a schema can cause: steps for each place of a value (`evaluations` and `numbers`), and steps for each character of a
    text (`text`). `unbounded`: whether the work can grow faster than the value."""

    evaluations: int = 1
    text: int = 0
    unbounded: bool = False
    numbers: int = 0

    def steps(self, places: int, characters: int) -> int:
        """The most steps for a value with this many places and characters. Not valid if the cost is unbounded."""
        return (self.evaluations + self.numbers) * places + self.text * characters


def pointer(path: Sequence[str | int]) -> str:
    """A path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def cost_of(schema: Any) -> Cost:
    """How much work a schema can cause. Raises SchemaInvalid if the schema is above a limit; the error's `code` says which limit."""
    if not isinstance(schema, Mapping):
        return Cost()
    size = len(msgspec.json.encode(schema))
    if size > MAX_BYTES:
        raise SchemaInvalid((), f"the schema has {size} bytes; at most {MAX_BYTES} are allowed", "schema_too_large")
    if codec.too_deep(schema, MAX_DEPTH):
        raise SchemaInvalid((), f"the schema is nested more than {MAX_DEPTH} levels deep", "schema_too_deep")
    return _Counting(schema).cost()


class _Edge(NamedTuple):
    target: int
    deeper: bool
    """Whether the target applies to a place inside the value, and not to the same place."""


class _SchemaPlace:
    """One schema inside the schema."""

    def __init__(self, part: Mapping[str, Any], path: SchemaPath) -> None:
        self.part, self.path = part, path
        self.edges: list[_Edge] = []
        self.evaluations, self.text = _own(part)
        self.numbers = _MULTIPLE_STEPS if "multipleOf" in part else 0
        self.chain = 1


class _Counting:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._references = References(schema)
        self._places: dict[int, _SchemaPlace] = {}
        self._unbounded = False
        self._waiting: list[tuple[Mapping[str, Any], SchemaPath]] = []

    def cost(self) -> Cost:
        self._walk()
        leads = {key: [edge.target for edge in place.edges] for key, place in self._places.items()}
        for group in grouped([id(self._schema)], leads):
            self._count(group)
        root = self._places[id(self._schema)]
        return Cost(root.evaluations, root.text, self._unbounded, root.numbers)

    # --- the places, and what leads from one to another

    def _walk(self) -> None:
        self._waiting.append((self._schema, ()))
        patterns = 0
        while self._waiting:
            part, path = self._waiting.pop()
            if id(part) in self._places:
                continue
            place = self._places[id(part)] = _SchemaPlace(part, path)
            place.edges = [self._edge(word, below, (*path, *at)) for word, below, at in _below(part)]
            place.edges += [edge for word in _REFERENCES if isinstance(part.get(word), str) for edge in self._referred(word, part, path)]
            for pattern, at in _patterns(part):
                patterns += 1
                if len(pattern) > MAX_CHARACTERS:
                    told = f"the pattern has {len(pattern)} characters; at most {MAX_CHARACTERS} are allowed"
                    raise SchemaInvalid((*path, *at), told, "schema_pattern")
                if patterns > MAX_PATTERNS:
                    raise SchemaInvalid((*path, *at), f"the schema has more than {MAX_PATTERNS} patterns", "schema_pattern")
            self._unbounded |= any(word in part for word in _UNEVALUATED) or ("$id" in part and part is not self._schema)

    def _edge(self, word: str, below: Mapping[str, Any], path: SchemaPath) -> _Edge:
        self._waiting.append((below, path))
        return _Edge(id(below), word not in _SAME_PLACE)

    def _referred(self, word: str, part: Mapping[str, Any], path: SchemaPath) -> Iterator[_Edge]:
        """The places that a reference leads to. A dynamic reference, or a reference that leads to no part of the schema, makes the cost
        unbounded."""
        found = self._references.found(part[word]) if word == "$ref" else []
        self._unbounded |= not found
        for target, at in found:
            if isinstance(target, Mapping):
                yield self._edge(word, target, at)

    # --- counting

    def _count(self, group: list[int]) -> None:
        """Compute how much work each place of a group causes, with the places that it leads to, and how deep it is. The groups that they
        lead to must be computed before. A group of several places is a cycle. Raises SchemaInvalid if a limit is exceeded."""
        places = [self._places[key] for key in group]
        inside = set(group)
        within = [[edge for edge in place.edges if edge.target in inside] for place in places]
        if any(within):
            # A cycle in which each place leads to one other, and which goes deeper into the value, visits each place of the value once.
            # Any other cycle multiplies the work, or never ends.
            one_way = all(len(edges) == 1 for edges in within) and any(edge.deeper for edges in within for edge in edges)
            self._unbounded |= not one_way
        evaluations = text = numbers = 0
        chain = len(group)
        for place in places:
            evaluations, text, numbers = evaluations + place.evaluations, text + place.text, numbers + place.numbers
            for edge in place.edges:
                if edge.target not in inside:
                    target = self._places[edge.target]
                    evaluations, text, numbers = evaluations + target.evaluations, text + target.text, numbers + target.numbers
                    chain = max(chain, len(group) + target.chain)
        for place in places:
            place.evaluations, place.text, place.numbers, place.chain = evaluations, text, numbers, chain
        where = min((place.path for place in places), key=len)
        if evaluations > MAX_EVALUATIONS or text > MAX_EVALUATIONS * _FORMAT_STEPS:
            told = f"with its references followed the schema has more than {MAX_EVALUATIONS} places to evaluate"
            raise SchemaInvalid(where, told, "schema_too_costly")
        if chain > MAX_CHAIN:
            raise SchemaInvalid(where, f"with its references followed the schema is more than {MAX_CHAIN} levels deep", "schema_too_deep")


def _own(part: Mapping[str, Any]) -> tuple[int, int]:
    """The steps that one place of the schema takes, without the schemas inside it. Two numbers: the steps for one place of the value, and
    the steps for one character of a text."""
    steps = 1 + sum(_size(part[word]) for word in ("enum", "const", "required", "dependentRequired") if word in part)
    steps += _UNIQUE_STEPS if part.get("uniqueItems") is True else 0
    names = part.get("properties")
    steps += len(names) if isinstance(names, Mapping) else 0
    text = sum(program_size(pattern) for pattern, _ in _patterns(part))
    return steps, text + (_FORMAT_STEPS if isinstance(part.get("format"), str) else 0)


def _patterns(part: Mapping[str, Any]) -> Iterator[tuple[str, SchemaPath]]:
    if isinstance(part.get("pattern"), str):
        yield part["pattern"], ("pattern",)
    named = part.get("patternProperties")
    if isinstance(named, Mapping):
        yield from ((pattern, ("patternProperties", pattern)) for pattern in named)


def _below(part: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], SchemaPath]]:
    """Every schema directly inside this one that is evaluated with it: its keyword, the schema, and its path. Schemas under `$defs` are
    left out: they are evaluated where a reference leads to them."""
    for word in ONE:
        if isinstance(part.get(word), Mapping):
            yield word, part[word], (word,)
    for word in MANY:
        if isinstance(part.get(word), list):
            yield from ((word, below, (word, str(at))) for at, below in enumerate(part[word]) if isinstance(below, Mapping))
    for word in (*NAMED, "dependencies"):
        if word != "$defs" and isinstance(part.get(word), Mapping):
            yield from ((word, below, (word, str(name))) for name, below in part[word].items() if isinstance(below, Mapping))


def _size(value: Any) -> int:
    """How many values a value contains, itself included."""
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return count
