"""A preview of a large value that is stored outside the checkpoint: the part of the value that the checkpoint shows.

Use it for `FileSystemSerDesConfig.generate_preview`, or in a `SerDes` of your own that stores values elsewhere:
`lambda value: build_preview(value, PreviewConfig(mode=PreviewMode.EXCLUDE_ALL, include=[PreviewField("order_id")]))`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class PreviewMode(StrEnum):
    """What happens to the fields that no list of the config names. INCLUDE_ALL: the preview shows them. EXCLUDE_ALL: it does not."""

    INCLUDE_ALL = "INCLUDE_ALL"
    EXCLUDE_ALL = "EXCLUDE_ALL"


class FieldMatchMode(StrEnum):
    """How the name of a PreviewField is compared. ANYWHERE: with the name of each field, at any depth. PATH: with the dotted path of each
    field from the root."""

    ANYWHERE = "ANYWHERE"
    PATH = "PATH"


@dataclass(frozen=True)
class PreviewField:
    """Names fields of a value. ANYWHERE: every field with this name at any depth, and all fields below it. PATH: the field with this dotted
    path; in `include` it must be a plain value, not a dictionary or a list. A preview never shows a field whose own name contains a dot."""

    name: str
    match: FieldMatchMode = FieldMatchMode.ANYWHERE


@dataclass(frozen=True)
class PreviewConfig:
    """What a preview shows. `mode` decides about fields that are in no list; `include` names fields that are shown in the mode EXCLUDE_ALL.
    In both modes a field in `exclude` is not shown, also if it is in `mask`; any other field in `mask` is shown as `mask_string`.

    Fields are added in the order of the value. `max_preview_bytes` limits the JSON of all fields that are added, each with its dotted path.
    The preview ends before the first field that would go beyond this limit.
    """

    mode: PreviewMode
    include: list[PreviewField] = field(default_factory=list)
    exclude: list[PreviewField] = field(default_factory=list)
    mask: list[PreviewField] = field(default_factory=list)
    mask_string: str = "***"
    max_preview_bytes: int = 4096


def build_preview(value: Any, config: PreviewConfig) -> dict[str, Any] | None:
    """The part of a dictionary that the config shows, nested as in the dictionary. None if nothing is shown, or if the value is no
    dictionary.

    A list does not appear in the preview: the fields of the dictionaries in the list are shown in its place, and its plain values are not
    shown. If several of these dictionaries have the same field, the last one is shown.
    """
    if not isinstance(value, dict):
        return None
    preview: dict[str, Any] = {}
    size = len("{}")
    for path, shown in _shown(value, "", config):
        size += len(f'"{path}":{json.dumps(shown)},'.encode())
        if size > config.max_preview_bytes:
            break
        _put(preview, path.split("."), shown)
    return preview or None


def _shown(value: object, above: str, config: PreviewConfig) -> Iterator[tuple[str, Any]]:
    """The dotted path and the value of each plain value in `value` that the preview shows. `above` is the dotted path of `value`; empty for
    the root. This is a generator, so that nothing more is read from a large value when the preview is full."""
    if isinstance(value, list):
        for item in value:
            yield from _shown(item, above, config)
    elif isinstance(value, dict):
        for key, item in value.items():
            if "." in str(key):
                continue  # a key with a dot would look like a path
            path = f"{above}.{key}" if above else str(key)
            if _named(path, config.exclude):
                continue
            if _named(path, config.mask):
                yield path, config.mask_string
            elif isinstance(item, dict | list):
                yield from _shown(item, path, config)
            elif config.mode is PreviewMode.INCLUDE_ALL or _named(path, config.include):
                yield path, item


def _named(path: str, fields: list[PreviewField]) -> bool:
    return any(path == f.name if f.match is FieldMatchMode.PATH else f.name in path.split(".") for f in fields)


def _put(preview: dict[str, Any], names: list[str], value: Any) -> None:
    node = preview
    for name in names[:-1]:
        below = node.get(name)
        if not isinstance(below, dict):
            below = node[name] = {}  # an item of a list had a plain value here
        node = below
    node[names[-1]] = value
