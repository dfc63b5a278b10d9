"""Reads trees as the nodes of a graph, by the types of the graph's structs (node_fields.py). Problems are noted, each with its line."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from holdfast.contract.notes import PageNotes, meant, shown
from holdfast.contract.page import PIPELINE_SPEC
from holdfast.model import json_structs
from holdfast.model.durations import HINT
from holdfast.model.durations import parsed as duration
from holdfast.pipelines.graph.bounds import check_node
from holdfast.pipelines.graph.graph import After, AnyNode, MapNode, MergePart, Node, StepNode
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.node_fields import KIND, KINDS, PageField, fields_of, is_template
from holdfast.pipelines.page.template_text import template
from holdfast.pipelines.page.trees import Keyed, Listed, PageUnreadable, Scalar, Tree, constant, inline, plain_value, without_comment

_PERCENT: Final = re.compile(r"(100|[1-9]?[0-9])%", re.ASCII)
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_STEP: Final = re.compile(r"([A-Za-z_][\w-]*\.py):(\w+)", re.ASCII)
_WORDS: Final = "Write a text in double quotes"


class StepFunction(msgspec.Struct, frozen=True):
    """A function that a step calls, as the page names it, and the line on the page."""

    file: str
    function: str
    line: int


class FieldReader:
    """Reads the nodes of one page. `maps` are the names of its nodes that are maps. Problems are added to `notes`."""

    def __init__(self, maps: Collection[str], notes: PageNotes) -> None:
        self._maps = maps
        self._notes = notes
        self._failed = False
        self.steps: list[StepFunction] = []
        """The functions that the steps call, in the order of the page."""

    def node(self, tree: Keyed) -> AnyNode | None:
        """The node that a tree describes. None if the tree has problems; they are noted."""
        self._failed = False
        kind = self._kind(tree)
        if kind is None:
            return None
        own = Keyed({key: inner for key, inner in tree.entries.items() if key != KIND}, tree.line, tree.lines)
        said = f"a node of the kind `{kind.__struct_config__.tag}`"
        made = self._struct(own, kind, said)
        if self._failed:
            return None
        try:
            node: AnyNode = json_structs.converted({**made, KIND: kind.__struct_config__.tag}, kind)  # type: ignore[assignment]
            check_node(node, "node")
            return node
        except msgspec.ValidationError as wrong:
            what, _, where = str(wrong).partition(" - at ")
            self._error("bad_value", self._line(tree, kind, where.strip("`$. ")), f"{what}.")
        except PipelineInvalid as wrong:
            self._error("bad_value", self._line(tree, kind, wrong.where.removeprefix("node.")), wrong.what)
        return None

    def gives(self, tree: Tree) -> Any:
        """The template of the pipeline's outputs; None if it has a problem, which is noted."""
        try:
            return template(tree, self._maps)
        except PageUnreadable as wrong:
            self._error(wrong.code, wrong.line, wrong.what)
            return None

    def _kind(self, tree: Keyed) -> type[Node] | None:
        given = tree.entries.get(KIND)
        try:
            kind = None if given is None else word(given)
        except PageUnreadable as wrong:
            self._error(wrong.code, wrong.line, wrong.what)
            return None
        if kind is None:
            self._error("field_missing", tree.line, f"The node has no `kind`. It is one of {', '.join(KINDS)}.")
        elif kind in KINDS:
            return KINDS[kind]
        else:
            told = f"`{shown(kind)}` is not a kind of a node.{meant(kind, KINDS)} The kinds are {', '.join(KINDS)}."
            self._error("unknown_kind", tree.lines[KIND], told)
        return None

    def _struct(self, tree: Keyed, struct: type[msgspec.Struct], said: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        known = fields_of(struct)
        for key, inner in tree.entries.items():
            if key not in known:
                told = f"`{shown(key)}` is not a key of {said}.{meant(key, known)}"
                self._error("unknown_field", tree.lines[key], told)
                continue
            try:
                made |= self._field(known[key], inner, struct)
            except PageUnreadable as wrong:
                self._error(wrong.code, wrong.line, f"`{shown(key)}`: {wrong.what}")
        for key, field in known.items():
            if field.required and key not in tree.entries:
                self._error("field_missing", tree.line, f"There is no `{key}`, which {said} needs.")
        return made

    def _field(self, field: PageField, tree: Tree, struct: type[msgspec.Struct]) -> dict[str, Any]:
        if field.optional and isinstance(tree, Scalar) and without_comment(tree.text) in ("null", "~"):
            raise PageUnreadable("null is not allowed here. To give no value, leave the key out.", tree.line)
        if struct is MapNode and field.name == "tolerate" and (percent := _PERCENT.fullmatch(word(tree))):
            return {"tolerate": int(percent[1]), "tolerate_percent": True}
        if struct is StepNode and field.name == "function":
            return {"function": self._function(tree)}
        if field.is_duration:
            return {field.name: _seconds(tree)}
        return {field.name: self._value(tree, field.hint)}

    def _function(self, tree: Tree) -> str:
        hit = _STEP.fullmatch(word(tree))
        if hit is None:
            raise PageUnreadable(
                f"`{shown(word(tree))}` is not of the form `file.py:function`. "
                "Name a file beside the page, without a folder, and a function of it.",
                tree.line,
            )
        self.steps.append(StepFunction(hit[1], hit[2], tree.line))
        return hit[2]

    def _value(self, tree: Tree, hint: Any) -> Any:
        if is_template(hint):
            return template(tree, self._maps)
        origin, inner = get_origin(hint), get_args(hint)
        if origin is tuple:
            return self._several(tree, inner[0])
        if origin is dict and inner[1] is not Any:
            return {key: self._value(each, inner[1]) for key, each in _object(tree).entries.items()}
        if origin is Literal:
            return _one_of(tree, inner)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._after(tree) if hint is After else self._struct(_object(tree), hint, f"`{hint.__name__.lower()}`")
        match hint.__name__ if isinstance(hint, type) else "":
            case "str":
                return word(tree)
            case "int":
                return _whole(tree)
            case "bool":
                return _one_of(tree, ("true", "false")) == "true"
            case "Decimal":
                return _amount(tree)
            case _:
                return constant(tree)

    def _several(self, tree: Tree, hint: Any) -> list[Any]:
        """Read a list; `hint` is the type of its elements. A single word is read as a list of one, for texts and `after`. The parts of a
        merge are read from an object."""
        if hint is MergePart:
            return [{"source": source, "value": template(each, self._maps)} for source, each in _object(tree).entries.items()]
        tree = inline(tree) if isinstance(tree, Scalar) and tree.text.lstrip().startswith(("[", "{")) else tree
        if isinstance(tree, Scalar) and hint in (str, After):
            return [self._value(tree, hint)]
        if not isinstance(tree, Listed):
            raise PageUnreadable("This must be a list. Write […], or one line `- …` for each item below it.", tree.line)
        return [self._value(each, hint) for each in tree.items]

    def _after(self, tree: Tree) -> dict[str, Any]:
        node, colon, label = word(tree).partition(":")
        return {"node": node, "label": label} if colon else {"node": node}

    def _line(self, tree: Keyed, struct: type[Node], where: str) -> int:
        """The line of a field of a node; `where` is its path, such as `at_most` or `caps.timeout_seconds`. The line of the node if the page
        does not have the key of the field."""
        name = re.split(r"[.\[]", where)[0]
        key = next((field.key for field in fields_of(struct).values() if field.name == name), name)
        return tree.lines.get(key, tree.line)

    def _error(self, code: str, line: int, message: str) -> None:
        self._failed = True
        self._notes.error(code, PIPELINE_SPEC, line, message)


def word(tree: Tree) -> str:
    """A text: in double quotes, or unquoted as it is on the line, without a comment. Raises PageUnreadable if it is not a text, if it is in
    single quotes or is missing, or if it is not certain whether a # in it begins a comment."""
    if not isinstance(tree, Scalar):
        raise PageUnreadable(f"This is not a text. {_WORDS}.", tree.line)
    text, bare = tree.text.strip(), without_comment(tree.text)
    if bare.startswith('"'):
        return str(plain_value(Scalar(bare, tree.line)))
    if bare.startswith("'"):
        raise PageUnreadable(f"{shown(bare)} is in single quotes. {_WORDS}.", tree.line)
    if bare != text and re.search(r"\s", bare):
        raise PageUnreadable("It is not certain whether ` #` begins a comment here. Put the text into double quotes.", tree.line)
    if not bare:
        raise PageUnreadable("There is no value. Write one after the key.", tree.line, "field_missing")
    return bare


def _object(tree: Tree) -> Keyed:
    found = inline(tree) if isinstance(tree, Scalar) else tree
    if not isinstance(found, Keyed):
        raise PageUnreadable("This must be an object. Write {key: value}, or one line `key: value` for each key below it.", tree.line)
    return found


def _one_of(tree: Tree, known: tuple[str, ...]) -> str:
    text = word(tree)
    if text not in known:
        raise PageUnreadable(f"`{shown(text)}` is not one of {', '.join(known)}.{meant(text, known)}", tree.line)
    return text


def _whole(tree: Tree) -> int:
    text = word(tree)
    if not _WHOLE.fullmatch(text):
        raise PageUnreadable(f"`{shown(text)}` is not a whole number.", tree.line)
    return int(text)


def _seconds(tree: Tree) -> int:
    seconds = duration(word(tree))
    if seconds is None:
        raise PageUnreadable(f"`{shown(word(tree))}` is not a duration. {HINT}", tree.line)
    return seconds


def _amount(tree: Tree) -> Decimal:
    try:
        return Decimal(word(tree)[:60])
    except InvalidOperation:
        raise PageUnreadable(
            f"`{shown(word(tree))}` is not an amount in US dollars. Write a number, 0.50 for instance.", tree.line
        ) from None
