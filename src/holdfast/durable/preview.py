"""A preview of a large value, for a checkpoint that refers to the whole value.

For `FileSystemSerDesConfig.generate_preview`, or any `SerDes` of your own that keeps values elsewhere:
`lambda value: build_preview(value, PreviewConfig(mode=PreviewMode.EXCLUDE_ALL, include=[PreviewField("order_id")]))`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class PreviewMode(StrEnum):
    """What is shown of fields that no list names: everything, or nothing."""

    INCLUDE_ALL = "INCLUDE_ALL"
    EXCLUDE_ALL = "EXCLUDE_ALL"


class FieldMatchMode(StrEnum):
    """Where a field's name is looked for: at any depth, or only at its exact dotted path from the root."""

    ANYWHERE = "ANYWHERE"
    PATH = "PATH"


@dataclass(frozen=True)
class PreviewField:
    """A field by name (`ANYWHERE`, with all that is below it) or by dotted path (`PATH`). A name with a dot cannot be given."""

    name: str
    match: FieldMatchMode = FieldMatchMode.ANYWHERE


@dataclass(frozen=True)
class PreviewConfig:
    """What a preview shows. An excluded field is never shown; a masked one is shown as `mask_string`, whatever the mode.

    Fields are taken in their order as long as they fit into `max_preview_bytes` of JSON.
    """

    mode: PreviewMode
    include: list[PreviewField] = field(default_factory=list)
    exclude: list[PreviewField] = field(default_factory=list)
    mask: list[PreviewField] = field(default_factory=list)
    mask_string: str = "***"
    max_preview_bytes: int = 4096


def build_preview(value: Any, config: PreviewConfig) -> dict[str, Any] | None:
    """The part of a dictionary that the config shows, nested as in the original; None when that is nothing.

    A list does not appear in the preview: the fields of its items take its place, and later items overwrite earlier ones.
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
    """Each leaf that is shown, with its dotted path. Lazy: the rest of a large value is not visited once the preview is full."""
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
