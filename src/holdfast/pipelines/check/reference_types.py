"""The types of all references and templates of a graph, as schemas. They are derived from the contracts of the workers, along the paths of
the references.

A node's result is a document of a known form (`Types._result`). About a value that no contract describes, no problem is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.pipelines.check import known
from holdfast.pipelines.check.fit import SchemaComparison
from holdfast.pipelines.check.known import Known, WorkersById
from holdfast.pipelines.check.shapes import ALL_TYPES, ANYTHING, SchemaDocument, Shape, Subschema, all_of, closed, made, told_types
from holdfast.pipelines.check.table import Found, listed, named
from holdfast.pipelines.graph.edges import templates_of
from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    RouteNode,
    StepNode,
    SuperviseNode,
    Template,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from holdfast.pipelines.graph.order import NodeOrder
from holdfast.pipelines.graph.paths import EACH, path_of, text_of
from holdfast.pipelines.graph.templates import INDEX, INPUTS, ITEM, MAX_DEPTH, Reference, form_of, reference_of

VERDICTS: Final = ("allow", "block", "revise")
_TEXT: Final = {"type": "string"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_COUNT: Final = {"type": "integer"}
_LIST: Final = {"type": "array"}


def _item(outputs: Any, **more: Any) -> dict[str, Any]:
    return closed(index=_COUNT, status=_TEXT, outputs=outputs, error={"type": ["object", "null"]}, run_id=_TEXT_OR_NULL, **more)


class ReferenceType(NamedTuple):
    """The type of the value to which a reference leads."""

    parts: tuple[Subschema, ...]
    doubt: str = ""
    """Why the value may be missing, as the second half of a sentence; empty if nothing says that it may be missing."""


class _Impossible(Exception):
    """The reference can never lead to a value. The text says why, as the second half of a sentence."""


class Types:
    """The types of one graph. Each node gets its type once, after the nodes above it. Problems of references are added to `found`."""

    def __init__(self, graph: Graph, workers: WorkersById, order: NodeOrder, comparison: SchemaComparison, found: Found) -> None:
        self._workers = workers
        self._order = order
        self._comparison = comparison
        self._found = found
        self._schemas: dict[int, tuple[Subschema, ...]] = {}
        self.inputs = self.of_schema(graph.contract.get("input_schema", {}))
        self.results: dict[str, tuple[Subschema, ...]] = {}
        """The type of each node's result document."""
        self.templates: dict[str, dict[str, tuple[Subschema, ...]]] = {}
        """For each node, the types of its templates by the names of their fields."""
        self.items: dict[str, tuple[Subschema, ...]] = {}
        """For each map, the type of the elements of its list."""
        for group in order.groups:
            for name in group:
                self._type(order.nodes[name])

    def of_schema(self, schema: Any) -> tuple[Subschema, ...]:
        """A whole schema as a type. Each schema object is read once."""
        if id(schema) not in self._schemas:
            self._schemas[id(schema)] = (SchemaDocument(schema).part,)
        return self._schemas[id(schema)]

    def known(self, worker: str) -> Known | None:
        """The worker that a node names; None if it is not known."""
        return known.found(self._workers, worker)

    def outputs_of(self, worker: str) -> tuple[Subschema, ...]:
        """The type of a worker's outputs; ANYTHING if the worker is not known."""
        found = self.known(worker)
        return ANYTHING if found is None else self.of_schema(found.contract.output_schema)

    # --- nodes

    def _type(self, node: AnyNode) -> None:
        types = self.templates[node.name] = {}
        for place, template in templates_of(node):
            if place == "inputs" and isinstance(node, MapNode):
                self.items[node.name] = self._elements(node, types["over"])
            types[place] = self.of_template(template, node)
        self.results[node.name] = made(self._result(node, types))

    def _elements(self, node: MapNode, over: tuple[Subschema, ...]) -> tuple[Subschema, ...]:
        shape = self._comparison.shape(over)
        if over and "array" not in shape.types:
            self._found.add("not_a_list", node.name, f"The map needs a list, and gets {told_types(shape.types)}.")
            return ANYTHING
        return _any_element(shape)

    def _result(self, node: AnyNode, types: Mapping[str, tuple[Subschema, ...]]) -> dict[str, Any]:
        """The schema of a node's result document."""
        match node:
            case WorkerNode():
                outputs = all_of(self.outputs_of(node.worker))
                return closed(
                    status=_TEXT, outputs=outputs, error={"type": ["object", "null"]}, run_id=_TEXT_OR_NULL, partial={"type": "boolean"}
                )
            case MapNode():
                good = {"type": "array", "items": _item(all_of(self.outputs_of(node.worker)))}
                every = {"type": "array", "items": _item({})}
                return closed(items=every, ok=good, failed=every, counts=closed(total=_COUNT, ok=_COUNT, failed=_COUNT))
            case MergeNode():
                return closed(outputs=self._merged(node), conflicts=_LIST, completeness={"type": "number"}, missing=_LIST)
            case GateNode():
                candidate = all_of(types["candidate"])
                return closed(verdict={"enum": list(VERDICTS)}, reasons=_LIST, round=_COUNT, outputs=candidate)
            case HumanNode():
                answer = {} if node.form is None else all_of(self.of_schema(node.form))
                return closed(outputs=answer, verdict=_TEXT, decided_by=_TEXT_OR_NULL, comment=_TEXT_OR_NULL)
            case RouteNode():
                return closed(label={"enum": list(node.labels)})
            case SuperviseNode():
                return closed(outputs=self._field_of(node.worker, "outputs"), turns=_COUNT, choices=_LIST)
            case UntilNode():
                self._check_rules(node)
                return closed(outputs=all_of(self.outputs_of(node.worker)), times=_COUNT)
            case StepNode():
                return closed(outputs={})
            case WaitNode():
                return closed()

    def _merged(self, node: MergeNode) -> Subschema:
        """The type of a merge's outputs. If a worker merges: the type of the field `merged` in the worker's outputs. If a policy merges:
        any value."""
        return Subschema({}) if node.worker is None else self._field_of(node.worker, "merged")

    def _field_of(self, worker: str, name: str) -> Subschema:
        """The type of one field of a worker's outputs; any value if the worker is not known, or if its output schema has `anyOf` or
        `oneOf`."""
        shape = self._comparison.shape(self.outputs_of(worker))
        return all_of(shape.field(name)) if not shape.choices else Subschema({})

    def _check_rules(self, node: UntilNode) -> None:
        """Add problems for rules of an `until` that can never hold, because the worker's outputs cannot have a value at their path."""
        for rule in node.rules:
            if rule.op == "missing":
                continue
            try:
                self._walked(self.outputs_of(node.worker), path_of(rule.path), "outputs")
            except _Impossible as why:
                self._found.add("impossible_field", node.name, f"The rule about {named('outputs' + rule.path, 120)} never holds: {why}.")

    def with_fields(self, parts: tuple[Subschema, ...], more: tuple[Subschema, ...]) -> tuple[Subschema, ...]:
        """The type of an object that has the fields of both types. Where both have a field, that of `more` is used. ANYTHING if the first
        type has `anyOf` or `oneOf`, or says nothing that can be compared."""
        mine, other = self._comparison.shape(parts), self._comparison.shape(more)
        if mine.choices or not mine.says_something:
            return ANYTHING
        fields = {name: all_of(mine.field(name)) for name in mine.names} | {name: all_of(other.field(name)) for name in other.names}
        required = sorted((mine.required | other.required) & set(fields))
        rest = mine.field("")  # the schema of fields that no schema names; False if there can be no such field
        return made({"type": "object", "properties": fields, "required": required, "additionalProperties": all_of(rest) if rest else True})

    def may_have(self, parts: tuple[Subschema, ...], name: str) -> bool:
        """Whether an object of this type may have a field of this name."""
        mine = self._comparison.shape(parts).field(name)
        return not mine or bool(self._comparison.shape(mine).types)

    # --- templates

    def of_template(self, template: Template, node: AnyNode | None, *, own: bool = False, depth: int = 0) -> tuple[Subschema, ...]:
        """The type of a template. Problems of its references are noted. `node` is the node that has the template; None for the outputs of
        the pipeline. `own`: whether the template is that of an undo, which may refer to the node itself and to nodes above it. `depth`: the
        level of this part in the whole template, from 0."""
        if depth > MAX_DEPTH:
            return ANYTHING

        def inner(part: Template) -> Subschema:
            return all_of(self.of_template(part, node, own=own, depth=depth + 1))

        if isinstance(template, list | tuple):
            first = [inner(part) for part in template]
            return made({"type": "array", "prefixItems": first, "items": False, "minItems": len(first)})
        if not isinstance(template, dict):
            return made({"const": template})
        match form_of(template):
            case None:
                return made(closed(**{name: inner(part) for name, part in template.items()}))
            case "$from":
                return self._referred(template, node, own)
            case "$const":
                return made({"const": template["$const"]})
            case "$text":
                for part in template.get("with") or ():
                    inner(part)
                return made(_TEXT)
            case "$concat":
                return self._joined([inner(part) for part in template["$concat"]], node)
            case _:
                return ANYTHING

    def _joined(self, lists: list[Subschema], node: AnyNode | None) -> tuple[Subschema, ...]:
        shapes = [self._comparison.shape((part,)) for part in lists]
        for shape in shapes:
            if "array" not in shape.types:
                self._found.add("not_a_list", node.name if node else None, f"`concat` joins lists, and gets {told_types(shape.types)}.")
        return made(
            {"type": "array", "items": Subschema({"anyOf": [all_of(_any_element(shape)) for shape in shapes]}) if shapes else False}
        )

    # --- references

    def _referred(self, template: Mapping[str, Any], node: AnyNode | None, own: bool) -> tuple[Subschema, ...]:
        reference = reference_of(template)
        where = node.name if node is not None else None
        source = self._source(reference, node, own)
        if source is None:
            return ANYTHING
        told = f"{reference.source}{text_of(reference.path)}"
        try:
            typed = self._walked(source, reference.path, reference.source)
            if reference.length:
                self._measured(typed)
        except _Impossible as why:
            self._found.add("impossible_field", where, f"{named(told, 120)} cannot have a value: {why}.")
            return ANYTHING
        if typed.doubt and not reference.has_default:
            self._found.add("uncertain_field", where, f"{named(told, 120)} may be missing: {typed.doubt}.")
        parts = made(_COUNT) if reference.length else typed.parts
        if not reference.has_default or not parts:
            return parts
        if EACH in reference.path and not reference.length:
            parts = made(_LIST)  # the default also stands for elements
        return made({"anyOf": [all_of(parts), Subschema({"const": reference.default})]})

    def _source(self, reference: Reference, node: AnyNode | None, own: bool) -> tuple[Subschema, ...] | None:
        """The type of the document in which a reference begins. None if there is no such document, which is noted as a problem. None also
        for a node in a cycle with this one, whose type is not known yet. `own`: whether the reference is in the inputs of an undo."""
        where, name = (node.name if node is not None else None), reference.source
        if name == INPUTS:
            return self.inputs
        if name in (ITEM, INDEX):
            if isinstance(node, MapNode) and node.name in self.items:
                if name == ITEM and own:  # an undo gets the row of the item, with the element of the list
                    return made(_item(all_of(self.outputs_of(node.worker)), item=all_of(self.items[node.name])))
                return self.items[node.name] if name == ITEM else made(_COUNT)
            self._found.add("item_outside_map", where, f"{named(name)} is known only in the inputs of a map and of its undo.")
            return None
        if name not in self._order.nodes:
            self._found.add("unknown_node", where, f"There is no node {named(name)}.")
            return None
        if own and node is not None and name != node.name and not self._order.above[node.name] & self._order.bit(name):
            self._found.add("not_upstream", where, f"The undo of {named(node.name)} refers to {named(name)}, which is not above it.")
            return None
        return self.results.get(name)  # inside a cycle the type is not known yet; check_order notes the cycle

    def _walked(self, parts: tuple[Subschema, ...], path: tuple[str | int, ...], before: str) -> ReferenceType:
        doubt = ""
        for at, key in enumerate(path):
            shape = self._comparison.shape(parts)
            doubt = doubt or _wanted(shape, "object" if isinstance(key, str) and key != EACH else "array", before)
            here, before = before, before + text_of((key,))
            if key == EACH:
                rest = self._walked(_any_element(shape), path[at + 1 :], before)
                return ReferenceType(made({"type": "array", "items": all_of(rest.parts)}), doubt or rest.doubt)
            if isinstance(key, int):
                parts = shape.element(key)
            else:
                typed = self._field(shape, key, here)
                parts, doubt = typed.parts, doubt or typed.doubt
        return ReferenceType(parts, doubt)

    def _field(self, shape: Shape, name: str, before: str) -> ReferenceType:
        mine = shape.field(name)
        if mine and not self._comparison.shape(mine).types:
            there = f"the fields are {listed(shape.names)}" if shape.names else "it has no fields"
            raise _Impossible(f"{named(before)} has no {named(name)}; {there}")
        promised = name in shape.required
        mentioned = bool(mine) or promised
        for group in shape.choices:
            forms = [self._comparison.shape((part,)) for part in group]
            fields = [each.field(name) for each in forms if "object" in each.types]
            open_forms = [one for one in fields if not one or self._comparison.shape(one).types]
            if fields and not open_forms:
                raise _Impossible(f"no alternative (anyOf, oneOf) of {named(before)} has {named(name)}")
            promised |= all(name in each.required for each in forms)
            mentioned |= any(open_forms)
            if open_forms and all(open_forms):
                mine = (*mine, Subschema({"anyOf": [all_of(one) for one in open_forms]}))
        if promised or not (shape.names or mentioned):
            return ReferenceType(mine)
        return ReferenceType(
            mine,
            f"{named(before)} need not have {named(name)}" if mentioned else f"the schema of {named(before)} does not name {named(name)}",
        )

    def _measured(self, typed: ReferenceType) -> None:
        types = self._comparison.shape(typed.parts).types
        if typed.parts and not types & {"array", "string", "object"}:
            raise _Impossible(f"{told_types(types)} has no length")


def _wanted(shape: Shape, kind: str, before: str) -> str:
    """Why a value may be of another type than `kind`, which the next part of a path needs; empty if it is always of this type, or if its
    type is not known. Raises _Impossible if it is never of this type. `before` is the path so far as text, for the messages."""
    if kind not in shape.types:
        raise _Impossible(f"{named(before)} is {told_types(shape.types)}")
    others = shape.types - {kind}
    return f"{named(before)} may be {told_types(others)}" if others and shape.types != ALL_TYPES else ""


def _any_element(shape: Shape) -> tuple[Subschema, ...]:
    """The type that every element of a list has; ANYTHING if it is not known."""
    own = [shape.element(index) for index in range(min(shape.first_elements, 64))]
    rest = shape.element(shape.first_elements)
    if not own:
        return rest
    every = own if rest and rest[0].schema is False else [*own, rest]
    return made({"anyOf": [all_of(one) for one in every]}) if all(every) else ANYTHING
