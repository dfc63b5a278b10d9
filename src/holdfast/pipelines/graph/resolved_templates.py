"""Finds the value of a template: its references are replaced by results of nodes. Pure; `resolved` never raises; its cost is bounded.

templates.py has the forms of templates; this module finds their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.paths import EACH, ValuePath, text_of
from holdfast.pipelines.graph.templates import INDEX, ITEM, MAX_DEPTH, PLACE, Reference, form_flaw, form_of, reference_of, references_in

MAX_RESOLVED: Final = 6 * 1024 * 1024
"""The bound for one template: the sizes of its values in characters of JSON, and _WALK for each element that a `*` visits, together. A
template above the bound is refused (`too_large`). The sizes are estimates that are never higher than the true size."""

_WALK: Final = 8
"""Each element of a list that a `*` visits counts as this many characters."""
NoValueReason: TypeAlias = Literal["no_result", "missing", "not_a_list", "no_length", "artifact", "too_large", "malformed"]
_TOLD: Final[Mapping[NoValueReason, str]] = {
    "no_result": "The source has no result",
    "missing": "There is no value at the path",
    "not_a_list": "The value is not a list",
    "no_length": "The value has no length",
    "artifact": "The value is inside an artifact",
    "too_large": f"The value, or a list that a `*` visits, is too large (the bound is {MAX_RESOLVED} characters)",
    "malformed": "The template has an unknown form",
}


class Unresolved(msgspec.Struct, frozen=True, kw_only=True):
    """Why a template has no value.

    `no_result`: the source has no result, for instance because its node was skipped · `missing`: there is no value at the path ·
    `not_a_list`: `*` or `$concat` met a value that is not a list · `no_length`: the value is not a text, list or object · `artifact`: the
    path, the length, the list or the text needs the content of an artifact, whose place is `path` · `too_large`: the value is above the
    bound · `malformed`: the template has an unknown form, or is nested too deep.
    """

    reason: NoValueReason
    source: str = ""
    path: ValuePath = ()

    def __str__(self) -> str:
        return f"{_TOLD[self.reason]}: {self.source}{text_of(self.path)}" if self.source else _TOLD[self.reason]


class MapItem(msgspec.Struct, frozen=True):
    """One element of a map's list, with its index. References to `item` and `index` get these values."""

    value: Any
    index: int


class _NoValue(Exception):
    def __init__(self, reason: NoValueReason, source: str = "", path: ValuePath = ()) -> None:
        self.unresolved = Unresolved(reason=reason, source=source, path=path)


def resolved(template: Template, results: Mapping[str, Any], *, item: MapItem | None = None) -> Any | Unresolved:
    """The value of a template, or an Unresolved that says why it has none. The value shares parts with `results`: do not change it.

    `results` has a JSON document for each source: `inputs`, and by its name the result of each node that has one. `item` is for templates
    of a map. MAX_RESOLVED bounds the work: the sizes of the values in characters, which are estimated and never too high, and 8 for each
    element that a `*` visits. Above it the template is refused (`too_large`), before its value is put together.
    """
    try:
        return _Resolver(results, item).value(template, 1)
    except _NoValue as none:
        return none.unresolved


class _Resolver:
    def __init__(self, results: Mapping[str, Any], item: MapItem | None) -> None:
        self._results = results
        self._item = item
        self._left = MAX_RESOLVED

    def value(self, part: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _NoValue("malformed")
        if isinstance(part, list | tuple):
            return [self.value(inner, depth + 1) for inner in part]
        if not isinstance(part, dict):
            return self._counted(part)
        form = form_of(part)
        if form is None:
            return {key: self.value(inner, depth + 1) for key, inner in part.items()}
        if form_flaw(form, part) is not None:
            raise _NoValue("malformed")
        match form:
            case "$from":
                return self._counted(self._referred(reference_of(part)))
            case "$const":
                return self._counted(part["$const"])
            case "$concat":
                return [element for inner in part["$concat"] for element in self._listed(inner, depth)]
            case _:
                return self._text(part, depth)

    def _counted(self, value: Any) -> Any:
        """Count the size of a value, and return the value. Raises _NoValue if the bound is exceeded."""
        self._left -= codec.at_least(value, self._left)
        if self._left < 0:
            raise _NoValue("too_large")
        return value

    def _listed(self, part: Any, depth: int) -> list[Any]:
        value = self.value(part, depth + 1)
        if not isinstance(value, list):
            raise _NoValue("artifact" if _is_artifact(value) else "not_a_list", *_place(part))
        return value

    def _text(self, part: Mapping[str, Any], depth: int) -> str:
        first, *pieces = part["$text"].split(PLACE)
        told = [first]
        for inner, piece in zip(part.get("with", ()), pieces, strict=True):
            value = self.value(inner, depth + 1)
            if _is_artifact(value):
                raise _NoValue("artifact", *_place(inner))
            told += (value if isinstance(value, str) else _written(value), piece)
        return "".join(told)

    def _referred(self, reference: Reference) -> Any:
        try:
            if reference.length:
                return _length(self._reached(self._document(reference), reference, ()), reference)
            instead = (reference.default,) if reference.has_default else ()
            return self._reached(self._document(reference), reference, instead)
        except _NoValue as none:
            if reference.has_default and none.unresolved.reason in ("no_result", "missing"):
                return reference.default
            raise

    def _document(self, reference: Reference) -> Any:
        if reference.source in (ITEM, INDEX):
            if self._item is None:
                raise _NoValue("no_result", reference.source)
            return self._item.value if reference.source == ITEM else self._item.index
        if reference.source not in self._results:
            raise _NoValue("no_result", reference.source)
        return self._results[reference.source]

    def _reached(self, value: Any, reference: Reference, instead: tuple[Any, ...], at: int = 0) -> Any:
        """Follow the path from its position `at` on, beginning in `value`, and return the value at its end. After `*`, `instead` (empty: no
        default) replaces the value of an element in which there is nothing at the rest of the path."""
        for done, part in enumerate(reference.path[at:], at):
            if part == EACH:
                if not isinstance(value, list):
                    reason: NoValueReason = "artifact" if _is_artifact(value) else "not_a_list"
                    raise _NoValue(reason, reference.source, reference.path[:done])
                self._left -= _WALK * len(value)  # counted also if only the length is wanted
                if self._left < 0:
                    raise _NoValue("too_large")
                return [self._element(element, reference, instead, done + 1) for element in value]
            if _has(value, part):
                value = value[part]
            elif _is_artifact(value):
                raise _NoValue("artifact", reference.source, reference.path[:done])
            else:
                raise _NoValue("missing", reference.source, reference.path[: done + 1])
        return value

    def _element(self, value: Any, reference: Reference, instead: tuple[Any, ...], at: int) -> Any:
        try:
            return self._reached(value, reference, instead, at)
        except _NoValue as none:
            if instead and none.unresolved.reason == "missing":
                return instead[0]
            raise


def _has(value: Any, part: str | int) -> bool:
    if isinstance(part, str):
        return isinstance(value, dict) and part in value
    return isinstance(value, list) and part < len(value)


def _length(value: Any, reference: Reference) -> int:
    if _is_artifact(value):
        raise _NoValue("artifact", reference.source, reference.path)
    if not isinstance(value, str | list | dict):
        raise _NoValue("no_length", reference.source, reference.path)
    return len(value)


def _written(value: Any) -> str:
    try:
        return codec.dumps(value, sort=False)
    except HoldfastError:  # nested too deep, for instance
        raise _NoValue("malformed") from None


def _place(part: Any) -> tuple[str, ValuePath]:
    reference = next(iter(references_in(part)), None)
    return ("", ()) if reference is None else (reference.source, reference.path)


def _is_artifact(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and "$artifact" in value
