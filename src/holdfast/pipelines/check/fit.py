"""Compares two JSON Schemas: does the consumer accept the values that the producer may give?

A misfit is *certain* if no value that the producer's schema allows is allowed by the consumer's. This is proved, never guessed, because a
certain misfit keeps a pipeline from running. A misfit is *possible* if the producer may give some values that the consumer does not accept.
If a producer's schema says nothing about a value, the consumer's schema for that value is not compared; but a field that the consumer
requires, and that the producer does not promise, is a possible misfit. The cost is bounded: `SchemaComparison.visits` counts the compared
places, and above its limit no further misfit is reported (`exhausted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.contract.equality import equal
from holdfast.pipelines.check.shapes import ALL_TYPES, SchemaDocument, Shape, Subschema, told_types, type_of
from holdfast.pipelines.graph.paths import EACH, ValuePath, text_of

MOST_DEPTH: Final = 24
MOST_VISITS: Final = 20_000
"""At most about this many places of one pair of schemas are compared."""
MOST_VISITS_TOGETHER: Final = 400_000
"""At most about this many places of all pairs of schemas of a graph are compared."""
MOST_MISFITS: Final = 20
_MOST_ELEMENTS: Final = 16
_MOST_OPEN: Final = 60
"""Comparisons may be nested at most about this deep. MOST_DEPTH, the limit for the length of a path, is not enough: `anyOf` inside `anyOf`
nests comparisons and does not make the path longer."""
_Key: TypeAlias = tuple[tuple[int, int], ...]


class Misfit(msgspec.Struct, frozen=True):
    """One place where the schemas of a producer and a consumer do not agree."""

    path: str
    """The place inside the value, written as in a rule: `.offers[0].price`; empty for the value itself."""
    certain: bool
    reason: str
    """What is wrong, as the second half of a sentence that begins with the place."""
    missing: bool = False
    """Whether the misfit is a field that the consumer requires, and that the producer does not have or does not promise."""

    def __str__(self) -> str:
        return f"{self.path or 'the value'} {self.reason}"


def fits(producer: Any, consumer: Any) -> list[Misfit]:
    """The places where the producer's schema does not fit the consumer's. If a misfit is certain, only the certain ones are returned.
    Empty if no misfit was found."""
    return SchemaComparison().misfits((SchemaDocument(producer).part,), (SchemaDocument(consumer).part,))


class SchemaComparison:
    """Compares pairs of schemas. All comparisons together have the limit MOST_VISITS_TOGETHER, and each pair has the limit MOST_VISITS."""

    def __init__(self) -> None:
        self.visits = 0
        self._until = MOST_VISITS_TOGETHER
        self._shapes: dict[_Key, tuple[Shape, tuple[Subschema, ...]]] = {}
        self._open: set[tuple[str, _Key, _Key]] = set()
        self.exhausted = False
        """Whether a limit was reached, so that misfits may be missing."""

    @property
    def _spent(self) -> bool:
        self.exhausted |= self.visits > self._until
        return self.visits > self._until

    def misfits(self, producer: tuple[Subschema, ...], consumer: tuple[Subschema, ...]) -> list[Misfit]:
        """The places where the producer's type does not fit the consumer's, at most MOST_MISFITS. If a misfit is certain, only the certain
        ones are returned."""
        self._until = min(MOST_VISITS_TOGETHER, self.visits + MOST_VISITS)
        certain = self.clashes(producer, consumer)
        found = certain or self._doubts(producer, consumer, ())
        return list(dict.fromkeys(found))[:MOST_MISFITS]

    def shape(self, parts: tuple[Subschema, ...]) -> Shape:
        """What all schemas of one place say together."""
        key = _key(parts)
        if key not in self._shapes:
            shape = Shape(parts)
            self.visits += shape.read
            self._shapes[key] = (shape, parts)  # the parts stay referenced, so that Python gives their id() to no other object
        return self._shapes[key][0]

    def _visit(self, question: str, one: tuple[Subschema, ...], other: tuple[Subschema, ...], path: ValuePath) -> bool:
        """Whether to compare this pair. If True, the pair counts as open (being compared) until the caller calls `_leave`. False if the
        pair is open already, if it is nested too deep, or if the limit is reached. `question` is `clash` (for certain misfits) or `doubt`
        (for possible ones)."""
        self.visits += 1
        key = (question, _key(one), _key(other))
        if self._spent or len(path) > MOST_DEPTH or len(self._open) > _MOST_OPEN or key in self._open:
            return False
        self._open.add(key)
        return True

    def _leave(self, question: str, one: tuple[Subschema, ...], other: tuple[Subschema, ...]) -> None:
        self._open.discard((question, _key(one), _key(other)))

    # --- certain: a proof that no value is allowed by both

    def clashes(self, one: tuple[Subschema, ...], other: tuple[Subschema, ...], path: ValuePath = ()) -> list[Misfit]:
        """Reasons why no value fits both types; empty if there may be such a value."""
        if not one or not other or not self._visit("clash", one, other, path):
            return []
        try:
            return self._clashes(self.shape(one), self.shape(other), one, other, path)
        finally:
            self._leave("clash", one, other)

    def _clashes(
        self, one: Shape, other: Shape, ones: tuple[Subschema, ...], others: tuple[Subschema, ...], path: ValuePath
    ) -> list[Misfit]:
        shared = one.types & other.types
        if not shared:
            return [_certain(path, f"is {told_types(one.types)}; {told_types(other.types)} is needed")]
        if one.values is not None or other.values is not None:
            values = one.values if one.values is not None else other.values or []
            if not any(self._allows(one, value) and self._allows(other, value) for value in values):
                return [_certain(path, _told_values(one, other))]
        for choices, against, turned in ((one.choices, others, False), (other.choices, ones, True)):
            for group in choices:
                clashing = [self.clashes(against, (each,), path) if turned else self.clashes((each,), against, path) for each in group]
                if all(clashing):
                    return (
                        clashing[0]
                        if len(group) == 1
                        else [_certain(path, f"fits none of the {len(group)} forms: {clashing[0][0].reason}")]
                    )
        reasons: list[Misfit] = []
        for kind in sorted(shared):
            found = list(self._inside(kind, one, other, path))
            if not found:
                return []
            reasons += found
        return reasons

    def _inside(self, kind: str, one: Shape, other: Shape, path: ValuePath) -> Iterator[Misfit]:
        """Reasons why no value of the type `kind` fits both shapes; none if there may be such a value."""
        if kind == "object":
            for name in sorted(one.required | other.required):
                yield from self._field_clash(name, one, other, (*path, name))
        elif kind == "array":
            for index in range(min(max(one.least_items, other.least_items), _MOST_ELEMENTS)):
                if self._forbids(other.element(index)) or self._forbids(one.element(index)):
                    yield _certain(path, "has another number of elements than is needed")
                    return
                yield from self.clashes(one.element(index), other.element(index), (*path, index))

    def _field_clash(self, name: str, one: Shape, other: Shape, path: ValuePath) -> Iterator[Misfit]:
        mine, theirs = one.field(name), other.field(name)
        if self._forbids(mine) and name in other.required:
            yield Misfit(text_of(path), True, "is required, and is not there", missing=True)
        elif self._forbids(theirs) and name in one.required:
            yield _certain(path, "is not accepted")
        else:
            yield from self.clashes(mine, theirs, path)

    def _forbids(self, parts: tuple[Subschema, ...]) -> bool:
        return bool(parts) and not self.shape(parts).types

    def _allows(self, shape: Shape, value: Any, depth: int = 0) -> bool:
        """Whether a shape may allow a value. True if the limit is reached before it is known."""
        self.visits += 1
        if self._spent or depth > MOST_DEPTH:
            return True
        if type_of(value) not in shape.types or (shape.values is not None and not any(equal(value, one) for one in shape.values)):
            return False
        for group in shape.choices:
            if not any(self._allows(self.shape((each,)), value, depth + 1) for each in group):
                return False
        if isinstance(value, dict):
            return shape.required <= value.keys() and all(
                self._allows(self.shape(parts), inner, depth + 1) for name, inner in value.items() if (parts := shape.field(name))
            )
        if isinstance(value, list | tuple):
            return len(value) >= shape.least_items and all(
                self._allows(self.shape(parts), inner, depth + 1) for index, inner in enumerate(value) if (parts := shape.element(index))
            )
        return True

    # --- possible: what a producer may give, and a consumer does not accept

    def _doubts(self, ones: tuple[Subschema, ...], others: tuple[Subschema, ...], path: ValuePath) -> list[Misfit]:
        if not ones or not others or not self._visit("doubt", ones, others, path):
            return []
        try:
            producer, consumer = self.shape(ones), self.shape(others)
            found = [*_type_doubts(producer, consumer, path), *self._value_doubts(producer, consumer, path)]
            found += self._choice_doubts(producer, consumer, ones, others, path)
            if {"object"} <= producer.types & consumer.types and producer.says_something:
                found += self._field_doubts(producer, consumer, path)
            if {"array"} <= producer.types & consumer.types:
                found += self._element_doubts(producer, consumer, path)
            return found[:MOST_MISFITS]
        finally:
            self._leave("doubt", ones, others)

    def _any_misfit(self, ones: tuple[Subschema, ...], others: tuple[Subschema, ...], path: ValuePath, when: str) -> list[Misfit]:
        certain = self.clashes(ones, others, path)
        if certain:
            return [Misfit(one.path, False, f"{one.reason}{when}", one.missing) for one in certain]
        return self._doubts(ones, others, path)

    def _value_doubts(self, producer: Shape, consumer: Shape, path: ValuePath) -> Iterator[Misfit]:
        if producer.values is not None:
            odd = [value for value in producer.values if self._allows(producer, value) and not self._allows(consumer, value)]
            if odd:
                yield _possible(path, f"may be {_shown(odd[:3])}, which is not accepted")
        elif consumer.values is not None and producer.types != ALL_TYPES and not producer.choices:
            yield _possible(path, f"may be any value; only {_shown(consumer.values[:6])} is accepted")

    def _choice_doubts(
        self, producer: Shape, consumer: Shape, ones: tuple[Subschema, ...], others: tuple[Subschema, ...], path: ValuePath
    ) -> Iterator[Misfit]:
        for group in producer.choices:
            for each in group:
                yield from self._any_misfit((each,), others, path, " in one of its forms" if len(group) > 1 else "")[:1]
        for group in consumer.choices:
            found = [self._any_misfit(ones, (each,), path, "") for each in group]
            if all(found):
                yield from min(found, key=len)[:1]

    def _field_doubts(self, producer: Shape, consumer: Shape, path: ValuePath) -> Iterator[Misfit]:
        known = set(producer.names)
        for name in sorted(consumer.required - producer.required):
            reason = "is required, and may be missing" if name in known else "is required, and is not promised"
            yield Misfit(text_of((*path, name)), False, reason, missing=True)
        for name in producer.names:
            mine, theirs = producer.field(name), consumer.field(name)
            if self._forbids(mine):
                continue
            if self._forbids(theirs):
                yield _possible((*path, name), "may be there, and is not accepted")
            else:
                yield from self._any_misfit(mine, theirs, (*path, name), "" if name in producer.required else ", if it is there")

    def _element_doubts(self, producer: Shape, consumer: Shape, path: ValuePath) -> Iterator[Misfit]:
        own = min(max(producer.first_elements, consumer.first_elements), _MOST_ELEMENTS)
        for index in range(own + 1):
            place = EACH if index == own else index
            mine, theirs = producer.element(index), consumer.element(index)
            if self._forbids(mine):
                return
            if self._forbids(theirs):
                if mine:
                    yield _possible(path, "may have more elements than are accepted")
                return
            yield from self._any_misfit(mine, theirs, (*path, place), ", unless the list is empty")


def _type_doubts(producer: Shape, consumer: Shape, path: ValuePath) -> Iterator[Misfit]:
    extra = producer.types - consumer.types
    if producer.values is not None:
        extra &= frozenset(type_of(value) for value in producer.values)
    if extra and producer.types != ALL_TYPES and not producer.values:
        yield _possible(path, f"may be {told_types(extra)}; {told_types(consumer.types)} is needed")


def _key(parts: tuple[Subschema, ...]) -> _Key:
    return tuple((id(part.schema), id(part.document)) for part in parts)


def _certain(path: ValuePath, reason: str) -> Misfit:
    return Misfit(text_of(path), True, reason)


def _possible(path: ValuePath, reason: str) -> Misfit:
    return Misfit(text_of(path), False, reason)


def _told_values(one: Shape, other: Shape) -> str:
    if one.values is not None and other.values is not None:
        return f"is {_shown(one.values[:3])}; only {_shown(other.values[:6])} is accepted"
    if one.values is not None:
        return f"is {_shown(one.values[:3])}, which is not accepted"
    return f"is never {_shown((other.values or [])[:6])}, and only this is accepted"


def _shown(values: list[Any]) -> str:
    return " or ".join(_brief(value) for value in values) or "nothing"


def _brief(value: Any) -> str:
    text = repr(value) if not isinstance(value, dict | list) else f"{type(value).__name__} with {len(value)} elements"
    return text if len(text) <= 40 else text[:39] + "…"
