"""Reads and writes the text of templates: references and the three other forms. A text that was written is read back as the same template.

    inputs.urls  pages.ok.outputs  report.outputs.offers[0].price  inputs["any field"]  prices.outputs[*].name      references
    facts.outputs.length   inputs.limit.default(10)   facts.outputs.length.default(0)                               with their ends
    const(JSON)   concat(VALUE, …)   text("… {} …", VALUE, …)                                                       the other forms
    "text"  12.5  true  null  {key: VALUE}  [VALUE, …]                                                              values

`pages.ok.outputs` of a map is the list of the outputs, as in Python: it is short for `pages.ok[*].outputs`. A node whose name is a number
or a literal (`42`, `true`) is written `node["42"]`. No text is evaluated, and there is no other form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from holdfast.contract.notes import shown
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.paths import EACH, Part
from holdfast.pipelines.graph.templates import Reference, form_of, reference_of
from holdfast.pipelines.page.layout import Doc, Group, quoted, value_doc
from holdfast.pipelines.page.trees import (
    STRING,
    Keyed,
    Listed,
    PageUnreadable,
    Scalar,
    Tree,
    WordCall,
    constant,
    inline,
    plain_value,
    text_in,
)

ITEMS: Final = ("ok", "failed", "items")
"""The members of a map's result that are lists. A field after one of them means the field of each element."""
_ODD_SOURCE: Final = re.compile(rf"node\[[ \t]*({STRING})[ \t]*\]")
_SOURCE: Final = re.compile(r"[a-z][a-z0-9_-]*")
_STEP: Final = re.compile(rf"\.([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]{{1,7}})\]|(\[\*\])|\[[ \t]*({STRING})[ \t]*\]")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_LITERALS: Final = ("true", "false", "null")
_ENDS: Final = ("length", "default", "each")
"""Words that do not mean a field after a dot. A field of such a name is written in brackets: `["length"]`."""
_DEFAULT: Final = ".default"
_FORMS: Final = "Write a reference as `node.outputs.field`, and a text in double quotes"


def template(tree: Tree, maps: Collection[str]) -> Template:
    """The template that a tree describes. `maps`: the names of the nodes that are maps. Raises PageUnreadable if the tree is not a
    template."""
    match inline(tree) if isinstance(tree, Scalar) else tree:
        case Keyed(entries=entries, lines=lines):
            for key in entries:
                if key.startswith("$"):
                    raise PageUnreadable(f"The key `{shown(key)}` begins with $. Such a key is allowed only inside const(…).", lines[key])
            return {key: template(inner, maps) for key, inner in entries.items()}
        case Listed(items=items):
            return [template(inner, maps) for inner in items]
        case WordCall() as called:
            return _called(called, maps)
        case Scalar() as scalar:
            is_plain = scalar.text in _LITERALS or scalar.text[:1] in '"-0123456789'
            return plain_value(scalar) if is_plain else _reference(scalar.text, scalar.line, maps)


def _called(called: WordCall, maps: Collection[str]) -> Template:
    given, line = called.given, called.line
    if called.word.endswith(_DEFAULT):
        if len(given) != 1:
            raise PageUnreadable(f".default(…) must have one value, and {len(given)} are given.", line)
        return {**_reference(called.word.removesuffix(_DEFAULT), line, maps), "default": constant(given[0])}
    match called.word:
        case "const":
            if len(given) != 1:
                raise PageUnreadable(f"const(…) must have one value, and {len(given)} are given.", line)
            return {"$const": constant(given[0])}
        case "concat":
            return {"$concat": [template(each, maps) for each in given]}
        case "text":
            first = plain_value(given[0]) if given and isinstance(given[0], Scalar) else None
            if not isinstance(first, str):
                raise PageUnreadable('text(…) must begin with a text in double quotes: text("Dear {}", inputs.name).', line)
            return {"$text": first, "with": [template(each, maps) for each in given[1:]]}
        case _:
            raise PageUnreadable(
                f"`{shown(called.word)}(…)` is unknown. There are const(…), concat(…), text(…) and `ref.default(…)`.", line
            )


def _reference(text: str, line: int, maps: Collection[str]) -> dict[str, Any]:
    odd, word = _ODD_SOURCE.match(text), _SOURCE.match(text)
    if odd is None and word is None:
        raise PageUnreadable(f"`{shown(text)}` is neither a reference nor a value. {_FORMS}.", line)
    source = text_in(odd[1], line) if odd else word[0] if word else ""
    parts: list[Part] = []
    at = (odd or word).end()  # type: ignore[union-attr]
    length = text.endswith(".length")
    end = len(text) - len(".length") * length
    while at < end:
        step = _STEP.match(text, at, end)
        if step is None or step[1] in _ENDS:
            raise PageUnreadable(f"`{shown(text)}` is not understood from `{shown(text[at:], 40)}` on. {_cure(step)}.", line)
        if step[1] is not None and source in maps and len(parts) == 1 and parts[0] in ITEMS:
            parts.append(EACH)
        parts.append(_part(step, line))
        at = step.end()
    return {"$from": source, **({"path": parts} if parts else {}), **({"length": True} if length else {})}


def _cure(step: re.Match[str] | None) -> str:
    if step is None:
        return _FORMS
    if step[1] == "each":
        return 'For each element of a list, write [*]; for a field of this name, ["each"]'
    return f'`.length` and `.default(…)` end a reference, in this order; for a field of this name, write ["{step[1]}"]'


def _part(step: re.Match[str], line: int) -> Part:
    if step[1] is not None:
        return step[1]
    if step[2] is not None:
        return int(step[2])
    name = EACH if step[3] is not None else text_in(step[4], line)
    if step[3] is None and name == EACH:
        raise PageUnreadable('A field of the name "*" cannot be reached. For each element of a list, write [*].', line)
    return name


# --- writing


def template_doc(value: Template, maps: Collection[str]) -> Doc:
    """A template, ready to be laid out on a page. `maps`: the names of the nodes that are maps."""
    if isinstance(value, list | tuple):
        return Group("[", [("", template_doc(inner, maps)) for inner in value], "]")
    if not isinstance(value, dict):
        return value_doc(value)
    match form_of(value):
        case "$from":
            return _reference_text(reference_of(value), maps)
        case "$const":
            return Group("const(", [("", value_doc(value["$const"]))], ")")
        case "$concat":
            return Group("concat(", [("", template_doc(inner, maps)) for inner in value["$concat"]], ")")
        case "$text":
            inserted = [("", template_doc(inner, maps)) for inner in value.get("with", ())]
            return Group("text(", [("", quoted(value["$text"])), *inserted], ")")
        case _:
            return Group("{", [(f"{key_text(key)}: ", template_doc(inner, maps)) for key, inner in value.items()], "}")


def key_text(key: str) -> str:
    """A key of an object as it is written on a page: in quotes if it is not a plain word."""
    return key if _KEY.fullmatch(key) else quoted(key)


def _reference_text(reference: Reference, maps: Collection[str]) -> str:
    source = reference.source
    bare = _SOURCE.fullmatch(source) is not None and source not in (*_LITERALS, "node")
    text = source if bare else f"node[{quoted(source)}]"
    text += "".join(_path(reference.path, of_map=source in maps))
    text += ".length" if reference.length else ""
    return f"{text}{_DEFAULT}({value_doc(reference.default)})" if reference.has_default else text


def _path(path: tuple[Part, ...], *, of_map: bool) -> Iterator[str]:
    listed = of_map and path[:1] != () and path[0] in ITEMS
    for at, part in enumerate(path):
        if isinstance(part, int):
            yield f"[{part}]"
        elif part == EACH:
            yield "" if listed and at == 1 and _dotted(path[2:3]) else "[*]"
        elif _dotted((part,)) and not (listed and at == 1):
            yield f".{part}"
        else:
            yield f"[{quoted(part)}]"


def _dotted(parts: tuple[Part, ...]) -> bool:
    return bool(parts) and isinstance(parts[0], str) and _FIELD.fullmatch(parts[0]) is not None and parts[0] not in _ENDS
