"""Templates: JSON in which references stand for values that are known only when a node runs. Pure, total and bounded.

The closed list of forms (every other object and list is a template member by member):

    {"$from": SOURCE, "path": [...], "default": X, "length": true}    a value of a source; path, default and length are optional
    {"$const": JSON}                                                  this value as it is, up to 64 KiB
    {"$concat": [TEMPLATE, ...]}                                      lists joined into one list
    {"$text": "... {} ...", "with": [TEMPLATE, ...]}                  values inserted: texts as they are, others as compact JSON

SOURCE is `inputs` (of the pipeline), `item` or `index` (only in the inputs of a map and of its undo), or the name of a node. Parts of a
path are the names of fields, indexes, and `*`: the rest of the path is read in each element of a list. A default is used if the source has
no result, or if there is no value at the path. After `*`, it is used for each element in which there is no value at the rest of the path;
with `length`, it is used for the whole length instead. Null is a value and a possible default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.paths import ValuePath, flaw_of

INPUTS: Final = "inputs"
ITEM: Final = "item"
INDEX: Final = "index"
THIS: Final = "this"
"""In the inputs of an `undo`, while the pipeline is built: the node that is undone. The builder replaces it with the node's name."""
RESERVED: Final = frozenset({INPUTS, ITEM, INDEX, THIS})
"""Sources that are not nodes. No node may have one of these names."""
MAX_DEPTH: Final = 32
"""A template, and a constant in it, is at most this many levels deep."""
MAX_CONSTANT_BYTES: Final = 64 * 1024
PLACE: Final = "{}"
"""Where `$text` inserts a value."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """One reference of a template."""

    source: str
    path: ValuePath = ()
    has_default: bool = False
    default: Any = None
    length: bool = False
    where: ValuePath = ()
    """The place of the reference in the template."""


class TemplateFlaw(NamedTuple):
    """What is wrong with a template, and where in it."""

    what: str
    where: ValuePath


_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "$from": frozenset({"$from", "path", "default", "length"}),
    "$const": frozenset({"$const"}),
    "$concat": frozenset({"$concat"}),
    "$text": frozenset({"$text", "with"}),
}


def references_in(template: Template) -> list[Reference]:
    """Every reference of a template, from its beginning to its end. Malformed references are left out (`flaws_in` finds them)."""
    return [found for _, found, _ in _walked(template) if isinstance(found, Reference)]


def sources_in(template: Template) -> list[str]:
    """The sources that a template uses, each once: `inputs`, `item`, `index` and the names of nodes."""
    return list(dict.fromkeys(reference.source for reference in references_in(template)))


def flaws_in(template: Template, *, item: bool = False) -> list[TemplateFlaw]:
    """What is wrong with the form of a template; empty if nothing is. `item`: whether it may refer to `item` and `index` of a map."""
    flaws: list[TemplateFlaw] = []
    for where, found, depth in _walked(template):
        if isinstance(found, TemplateFlaw):
            flaws.append(found)
        elif isinstance(found, Reference) and found.source in (ITEM, INDEX) and not item:
            flaws.append(TemplateFlaw(f"`{found.source}` is known only in the inputs of a map and of its undo.", where))
        elif isinstance(found, Reference) and found.source == THIS:
            flaws.append(TemplateFlaw("`this` is known only in the inputs of the undo= of a worker or pipeline node.", where))
        if depth > MAX_DEPTH:
            flaws.append(TemplateFlaw(f"The template is nested more than {MAX_DEPTH} levels deep.", where[:MAX_DEPTH]))
            break
    return flaws


class _TemplatePart(NamedTuple):
    where: ValuePath
    found: Reference | TemplateFlaw | None
    depth: int


def _walked(template: Template) -> Iterator[_TemplatePart]:
    """Every place of a template, from its beginning to its end. It does not recurse, and goes at most one level deeper than MAX_DEPTH."""
    waiting: list[tuple[ValuePath, Any, int]] = [((), template, 1)]
    while waiting:
        where, part, depth = waiting.pop()
        found, below = _read(part, where)
        yield _TemplatePart(where, found, depth)
        if depth <= MAX_DEPTH:
            waiting.extend(((*where, key), inner, depth + 1) for key, inner in reversed(below))


def _read(part: Any, where: ValuePath) -> tuple[Reference | TemplateFlaw | None, list[tuple[str | int, Any]]]:
    """Read one place of a template. Returns the reference or the flaw at this place, or None if there is neither; then the templates
    inside this place, each with its key or index."""
    if isinstance(part, list | tuple):
        return None, list(enumerate(part))
    if not isinstance(part, dict):
        flaw = None if part is None or isinstance(part, str | int | float) else f"A value of the type {type(part).__name__} is not JSON."
        return (None if flaw is None else TemplateFlaw(flaw, where)), []
    form = form_of(part)
    if form is None:
        return None, list(part.items())
    if (flaw := form_flaw(form, part) or _constant_flaw(part)) is not None:
        return TemplateFlaw(flaw, where), []
    if form == "$from":
        return reference_of(part, where), []
    if form == "$const":
        return None, []
    key = "$concat" if form == "$concat" else "with"
    return None, list(enumerate(part.get(key, ())))


def form_of(part: Mapping[str, Any]) -> str | None:
    """The first key of an object that begins with `$`. It names the form that the object must have: `$from`, `$const`, `$concat` or
    `$text`. None if no key begins with `$`: then each member of the object is a template."""
    return next((key for key in part if key.startswith("$")), None)


def reference_of(part: Mapping[str, Any], where: ValuePath = ()) -> Reference:
    """The Reference for an object with `$from`. The object must have the right form (`form_flaw`)."""
    return Reference(
        source=part["$from"],
        path=tuple(part.get("path", ())),
        has_default="default" in part,
        default=part.get("default"),
        length=part.get("length", False),
        where=where,
    )


def form_flaw(form: str, part: Mapping[str, Any]) -> str | None:
    """What is wrong with an object of this form, as a sentence; None if nothing is wrong. Constants and defaults are not checked."""
    known = _MEMBERS.get(form)
    if known is None:
        return f"`{form:.40}` is not a form of a template ({', '.join(_MEMBERS)}). Put an object with such a key inside `$const`."
    if not set(part) <= known:
        odd = next(key for key in part if key not in known)
        return f"`{odd!s:.40}` does not belong to `{form}`. The allowed keys are {', '.join(sorted(known))}."
    match form:
        case "$from":
            return _reference_flaw(part)
        case "$const":
            return None
        case "$concat":
            return None if isinstance(part[form], list | tuple) else "`$concat` must have a list of templates."
        case _:
            text, values = part["$text"], part.get("with", ())
            if not isinstance(text, str) or not isinstance(values, list | tuple):
                return "`$text` must be a text, and `with` must be a list of templates."
            return (
                None
                if text.count(PLACE) == len(values)
                else f"The text has {text.count(PLACE)} places {{}} and {len(values)} values; give one value for each place."
            )


def _reference_flaw(part: Mapping[str, Any]) -> str | None:
    if not isinstance(part["$from"], str) or not 0 < len(part["$from"]) <= 64:
        return "`$from` must be the name of a node, `inputs`, `item` or `index`: a text of 1 to 64 characters."
    if (flaw := flaw_of(part.get("path", ()))) is not None:
        return f"The path of a reference to {part['$from']} {flaw}."
    if not isinstance(part.get("length", False), bool):
        return "`length` must be true or false."
    return None


def _constant_flaw(part: Mapping[str, Any]) -> str | None:
    return constant_flaw(part.get("$const", part.get("default")))


def constant_flaw(value: Any) -> str | None:
    """Why a value cannot be a constant of a pipeline, as text for an error; None if it can."""
    if codec.too_deep(value, MAX_DEPTH):
        return f"The constant is nested more than {MAX_DEPTH} levels deep."
    if codec.at_least(value, MAX_CONSTANT_BYTES) > MAX_CONSTANT_BYTES:
        return _TOO_LARGE
    try:
        size = len(codec.dumps(value, sort=False).encode())
    except (HoldfastError, UnicodeError) as odd:
        return f"The constant is not JSON: {odd}"
    return _TOO_LARGE if size > MAX_CONSTANT_BYTES else None


_TOO_LARGE: Final = f"The constant has more than {MAX_CONSTANT_BYTES} bytes as JSON. Give large data to the pipeline as an input."
