"""Makes the JSON Schema of a tool's arguments from the signature of its function. The source is read; the function is not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

_PLAIN: Final[dict[str, Any]] = {
    "str": {"type": "string"}, "int": {"type": "integer"}, "float": {"type": "number"}, "bool": {"type": "boolean"},
    "dict": {"type": "object"}, "list": {"type": "array"}, "tuple": {"type": "array"}, "set": {"type": "array"},
    "Dict": {"type": "object"}, "Mapping": {"type": "object"}, "List": {"type": "array"}, "Sequence": {"type": "array"},
    "None": {"type": "null"},
}  # fmt: skip


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[dict[str, Any], str | None]:
    """Returns the schema of a tool's arguments (all parameters after the first, which is the call), and None. If something is wrong with
    the signature, returns an empty schema, and a text that says what is wrong."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    if spec.vararg or spec.kwarg:
        return {}, "name every argument; *args and **kwargs cannot be checked or shown to an approver."
    if not positional:
        return {}, "its first parameter must be the call: `call: ToolCall`."
    if len(spec.posonlyargs) > 1:
        return {}, "arguments are passed by name, so only the call may stand before a `/`."
    wanted = positional[len(positional) - len(spec.defaults) :]
    defaults = dict(zip([parameter.arg for parameter in wanted], spec.defaults, strict=True))
    defaults |= {parameter.arg: value for parameter, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value is not None}
    taken = [*positional[1:], *spec.kwonlyargs]
    return {
        "type": "object",
        "properties": {parameter.arg: schema_of(parameter.annotation) for parameter in taken},
        "required": [parameter.arg for parameter in taken if parameter.arg not in defaults],
        "additionalProperties": False,
    }, None


def schema_of(annotation: ast.expr | None) -> Any:
    """The schema of an annotation; an annotation that is not known gives a schema that allows any JSON value."""
    match annotation:
        case None:
            return {}
        case ast.Constant(value=None):
            return _PLAIN["None"]
        case ast.Constant(value=str(text)):
            return _quoted(text)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _PLAIN.get(name, {})
        case ast.BinOp(op=ast.BitOr()):
            return _any_of([schema_of(part) for part in _parts(annotation)])
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inside):
            return _of_generic(name, inside)
        case _:
            return {}


def _quoted(text: str) -> Any:
    try:
        return schema_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return {}


def _of_generic(name: str, inside: ast.expr) -> Any:
    items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    match name:
        case "list" | "List" | "Sequence" | "set":
            return {"type": "array", "items": schema_of(items[0])}
        case "tuple":
            return {"type": "array"}
        case "dict" | "Dict" | "Mapping":
            return {"type": "object", "additionalProperties": schema_of(items[-1])}
        case "Optional":
            return _any_of([schema_of(items[0]), _PLAIN["None"]])
        case "Union":
            return _any_of([schema_of(item) for item in items])
        case "Literal":
            values = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str | int | bool | None)]
            return {"enum": values} if len(values) == len(items) else {}
        case "Annotated":
            return schema_of(items[0])
        case _:
            return {}


def _any_of(schemas: list[Any]) -> Any:
    """A schema that accepts every value that one of these schemas accepts: `{}` if one of them accepts every value, a list of types if each
    schema is only a type, else `anyOf`."""
    if any(schema == {} for schema in schemas):
        return {}
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": list(dict.fromkeys(schema["type"] for schema in schemas))}
    return {"anyOf": schemas}


def _parts(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from _parts(annotation.left)
        yield from _parts(annotation.right)
    else:
        yield annotation
