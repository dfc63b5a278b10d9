"""Reads the text of a template into plain values, with the line number of each. Short forms such as `!Ref` become long forms.

Untrusted YAML can be a bomb (a few aliases that expand to millions of nodes), a cycle, or nested too deeply. So the text is first parsed
into a node graph, which is as large as the text. Then the graph is walked with a budget, and an alias costs as much as its expansion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import yaml

from holdfast.model.deploy_errors import TemplateInvalid

MAX_BYTES: Final = 1024 * 1024
"""The largest template, in bytes. CloudFormation has the same limit."""
MAX_NODES: Final = 200_000
MAX_MARKS: Final = 100_000
"""A template may have at most this many lines, commas and opening brackets together. Parsing takes about 30 microseconds for each of
them."""
MAX_DEPTH: Final = 100
_LONGEST_NUMBER: Final = 100
"""A longer number stays text: YAML has numbers such as 1:30:00, and the time to read one grows with the square of its length."""

YamlPath = tuple[str | int, ...]
_YAML: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset(f"{_YAML}{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map", "timestamp", "value"))
_SHORT: Final = frozenset({"Ref", "Condition"})
_FUNCTIONS: Final = frozenset({
    "And", "Base64", "Cidr", "Equals", "FindInMap", "ForEach", "GetAZs", "GetAtt", "If", "ImportValue", "Join", "Length", "Not", "Or",
    "Select", "Split", "Sub", "ToJsonString", "Transform",
})  # fmt: skip


class YamlDocument(msgspec.Struct, frozen=True):
    """A document, and by their paths the line numbers of its parts. Not every part has a line number here: `place` then takes the nearest
    part around it."""

    value: Any
    lines: Mapping[YamlPath, int]

    def place(self, path: YamlPath) -> str:
        """A place for error messages: the path, and the line of this part or of the nearest part around it that has a line."""
        named = ".".join(map(str, path)) or "the template"
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{named} (line {line})"
        return named


def read_text(raw: bytes) -> YamlDocument:
    """Read a template, which is YAML or JSON. Raises TemplateInvalid if the template cannot be used; the message says why."""
    if len(raw) > MAX_BYTES:
        raise TemplateInvalid(f"The template has {len(raw)} bytes; at most {MAX_BYTES} bytes are allowed.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TemplateInvalid(f"The template is not UTF-8 (byte {error.start}).") from None
    if raw.count(b",") + raw.count(b"\n") + raw.count(b"[") + raw.count(b"{") > MAX_MARKS:
        raise TemplateInvalid(f"The template has more than {MAX_MARKS} lines, commas and brackets. Split it, or move inline code to files.")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return _read_json(text, error)
    except RecursionError:
        raise TemplateInvalid("The template is nested too deeply.") from None
    if node is None:
        raise TemplateInvalid("The template is empty.")
    walk = _Walk()
    value = walk.value(node, (), ())
    return YamlDocument(value, walk.lines)


def _read_json(text: str, error: yaml.YAMLError) -> YamlDocument:
    """Read a text as JSON after it could not be read as YAML: JSON may be indented with tabs, and YAML may not. `error` is the error of the
    YAML parser. Raises TemplateInvalid if the text is not JSON either: with the error of the JSON parser if the text begins with `{`, else
    with `error`."""
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
            _check_depth(value, 0)
            return YamlDocument(value, {(): 1})
        except json.JSONDecodeError as wrong:
            raise TemplateInvalid(f"The template is not JSON: {wrong.msg} (line {wrong.lineno}, column {wrong.colno}).") from None
        except ValueError:
            raise TemplateInvalid("The template has a number with too many digits.") from None
        except RecursionError:
            raise TemplateInvalid("The template is nested too deeply.") from None
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    raise TemplateInvalid(f"The template cannot be read as YAML: {getattr(error, 'problem', None) or error}{where}.")


def _check_depth(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TemplateInvalid(f"The template is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, depth + 1)


def _told(path: tuple[str | int, ...]) -> str:
    """A place in the template, for a message."""
    return ".".join(map(str, path)) or "The template"


class _Walk:
    def __init__(self) -> None:
        self.lines: dict[YamlPath, int] = {}
        self._left = MAX_NODES
        self._scalars: Any = yaml.SafeLoader("")

    def value(self, node: yaml.Node, path: YamlPath, inside: tuple[int, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TemplateInvalid(f"The template has more than {MAX_NODES} values if its YAML aliases are expanded. Use fewer aliases.")
        line: int = node.start_mark.line + 1
        if len(inside) > MAX_DEPTH:
            raise TemplateInvalid(f"The template is nested more than {MAX_DEPTH} levels deep (line {line}).")
        if id(node) in inside:
            raise TemplateInvalid(f"An alias in the template refers to a value that contains it (line {line}).")
        self.lines.setdefault(path, line)
        inside = (*inside, id(node))
        if not node.tag.startswith("!"):
            if node.tag not in _TAGS:
                tag = node.tag.replace(_YAML, "!!")
                raise TemplateInvalid(
                    f"{_told(path)} (line {line}): Holdfast does not support the tag {tag:.100}. Write the value without it."
                )
            return self._plain(node, path, inside)
        name = node.tag[1:]
        if name not in _SHORT and name not in _FUNCTIONS:
            raise TemplateInvalid(f"{_told(path)} (line {line}): {node.tag} is not a function of CloudFormation.")
        key = name if name in _SHORT else f"Fn::{name}"
        if name == "GetAtt" and isinstance(node, yaml.ScalarNode):
            resource, _, attribute = str(node.value).partition(".")
            return {key: [resource, attribute]}
        return {key: self._plain(node, (*path, key), inside)}

    def _plain(self, node: yaml.Node, path: YamlPath, inside: tuple[int, ...]) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, inside)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, number), inside) for number, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: YamlPath, inside: tuple[int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, item in node.value:
            if key_node.tag == f"{_YAML}merge":
                parts = item.value if isinstance(item, yaml.SequenceNode) else [item]
                for part in parts:
                    value = self.value(part, path, inside)
                    if not isinstance(value, dict):
                        raise TemplateInvalid(f"The value that `<<` merges at line {part.start_mark.line + 1} is not a mapping.")
                    for name, part_value in value.items():
                        merged.setdefault(name, part_value)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise TemplateInvalid(f"A key at line {key_node.start_mark.line + 1} is not a text.")
            key = str(key_node.value)
            if key in found:
                raise TemplateInvalid(f"{'.'.join(map(str, (*path, key)))} (line {key_node.start_mark.line + 1}) is there twice. Keep one.")
            self.lines[*path, key] = key_node.start_mark.line + 1
            found[key] = self.value(item, (*path, key), inside)
        return {**merged, **found}

    def _scalar(self, node: yaml.Node) -> Any:
        kind = node.tag.removeprefix(_YAML)
        make: Callable[[], Any] | None = {
            "null": lambda: None,
            "bool": lambda: self._scalars.construct_yaml_bool(node),
            "int": lambda: self._scalars.construct_yaml_int(node),
            "float": lambda: self._scalars.construct_yaml_float(node),
        }.get(kind)
        if make is None or len(node.value) > _LONGEST_NUMBER:  # a date stays text, because CloudFormation has no dates
            return str(node.value)
        try:
            return make()
        except (ValueError, KeyError):
            return str(node.value)
