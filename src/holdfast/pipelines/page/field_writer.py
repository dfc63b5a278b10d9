"""Writes nodes as the keys and values of a page, by the types of the graph's structs (node_fields.py). A field that has its default value
is left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from holdfast.model.durations import duration_of
from holdfast.pipelines.graph.graph import After, AnyNode, MapNode, MergePart, Node, StepNode, kind_of
from holdfast.pipelines.page.layout import Doc, Group, quoted, value_doc
from holdfast.pipelines.page.node_fields import KIND, PageField, fields_of, is_template
from holdfast.pipelines.page.template_text import key_text, template_doc

_BARE: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@+/-]*", re.ASCII)


def node_texts(node: AnyNode, maps: Collection[str], step_file: str) -> Iterator[tuple[str, Doc]]:
    """The keys of a node with their values: its name and kind, the keys of its kind, then the keys that all nodes have. `maps` are the
    names of the nodes that are maps; `step_file` is the name of the file with the functions of steps."""
    yield "name", word_text(node.name)
    yield KIND, kind_of(node)
    common = fields_of(Node)
    fields = fields_of(type(node))
    for key in (*(key for key in fields if key not in common), *(key for key in common if key != "name")):
        if (text := _field(fields[key], node, maps)) is not None:
            is_function = isinstance(node, StepNode) and key == "function"
            yield key, f"{step_file}:{node.function}" if is_function and isinstance(node, StepNode) else text


def _field(field: PageField, struct: msgspec.Struct, maps: Collection[str]) -> Doc | None:
    value = getattr(struct, field.name)
    if isinstance(struct, MapNode) and field.name == "tolerate":
        return f"{value}%" if struct.tolerate_percent else str(value) if value else None
    if not field.required and value == field.default:
        return None
    return duration_of(value) if field.is_duration else _value(value, field.hint, maps)


def _value(value: Any, hint: Any, maps: Collection[str]) -> Doc:
    if is_template(hint):
        return template_doc(value, maps)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple and inner[0] is MergePart:
        return Group("{", [(f"{key_text(part.source)}: ", template_doc(part.value, maps)) for part in value], "}")
    if origin is tuple:
        return Group("[", [("", _value(each, inner[0], maps)) for each in value], "]")
    if origin is dict and inner[1] is not Any:
        return Group("{", [(f"{key_text(key)}: ", _value(each, inner[1], maps)) for key, each in value.items()], "}")
    if isinstance(value, After):
        return value.node if value.label is None else f"{value.node}:{value.label}"
    if isinstance(value, msgspec.Struct):
        said = ((field.key, _field(field, value, maps)) for field in fields_of(type(value)).values())
        return Group("{", [(f"{key}: ", text) for key, text in said if text is not None], "}")
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return word_text(value) if hint is str or origin is Literal else value_doc(value)


def word_text(text: str) -> str:
    """A text for a field that is never a reference: unquoted if it is one plain word, else in double quotes. (`null` and `~` are quoted
    too.)"""
    return text if _BARE.fullmatch(text) and text not in ("null", "~") else quoted(text)
