"""The fields of the graph's structs as keys of a page. They are derived from the types of the fields, so that a new field or a new kind of
node needs no code here.

A field whose name ends in `_seconds` is a duration, and its key is the name without that end (`within: 2d`); the key of `seconds` is
`duration`. `after` is a node, or `route:label`; the parts of a merge are an object from sources to values; `tolerate: 20%` is a percentage;
the `function` of a step is `file.py:function`.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from holdfast.pipelines.graph.graph import TEMPLATE, AnyNode, MapNode, Node

KIND: Final = "kind"
_SECONDS: Final = "seconds"
_HIDDEN: Final = {(MapNode, "tolerate_percent")}
"""Fields without a key of their own on a page: the text of another key has their value (`tolerate: 20%`)."""
KINDS: Final[Mapping[str, type[Node]]] = {str(each.__struct_config__.tag): each for each in get_args(AnyNode)}
"""The struct of each kind of node, by the name of the kind."""


class PageField(msgspec.Struct, frozen=True):
    """One field of a struct of the graph (a node, or a part of a node such as `Undo`), and how a page writes it."""

    key: str
    """The key of the field on a page."""
    name: str
    hint: Any
    """The type of the field, without None."""
    optional: bool
    """Whether the field may be None."""
    required: bool
    default: Any
    is_duration: bool


@cache
def fields_of(struct: type[msgspec.Struct]) -> Mapping[str, PageField]:
    """The fields of a struct, by their keys on a page."""
    hints = typing.get_type_hints(struct, include_extras=True)
    made: dict[str, PageField] = {}
    for field in msgspec.structs.fields(struct):
        if (struct, field.name) in _HIDDEN:
            continue
        hint, optional = _without_none(hints[field.name])
        is_duration = hint is int and (field.name == _SECONDS or field.name.endswith(f"_{_SECONDS}"))
        key = field.name if not is_duration else "duration" if field.name == _SECONDS else field.name.removesuffix(f"_{_SECONDS}")
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        assert key not in made, f"two fields of {struct.__name__} have the name {key} on a page"
        made[key] = PageField(key, field.name, hint, optional, field.required, default, is_duration)
    return made


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    rest = [each for each in get_args(hint) if each is not NoneType]
    assert len(rest) == 1, f"{hint} is a type that no page can write"
    return rest[0], len(rest) < len(get_args(hint))


def is_template(hint: Any) -> bool:
    """Whether a field of this type is a template."""
    return get_origin(hint) is Annotated and TEMPLATE in hint.__metadata__


NODE_KEYS: Final = frozenset({KIND, *(key for struct in KINDS.values() for key in fields_of(struct))})
"""The keys of all kinds of nodes together."""
