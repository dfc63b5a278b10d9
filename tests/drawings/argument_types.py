"""The types of the arguments of public names: of functions, of verbs, and of the fields of classes whose objects callers make."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from tests.drawings.public_names import HOLDERS, MIRRORS, PARTS, public
from tests.drawings.returned_types import returned_types, types_in

_SEAMS: Final = ("FunctionMetrics", "Observer", "SqliteStore", "Store")
"""Classes most of whose methods only the engine calls. An author of a store or of an observer reads the modules of the seam."""
_MADE: Final = ("Actor", "Filter", "Limits", "NoteFilter", "Only", "Queue", "Schedule", "Settings")
"""Structs that callers make. The other structs are results, or are read from a file, as `WorkerSettings`."""


def unnamed_types() -> dict[str, list[str]]:
    """Each type of an argument that a caller can neither import as a public name nor get from a public verb, with these arguments."""
    known = {id(name.value) for name in public().values()} | {id(kind) for kind in returned_types()}
    found: dict[str, list[str]] = {}
    for title, module, annotation in _arguments():
        for kind in types_in(annotation, module):
            if id(kind) not in known:
                found.setdefault(f"{kind.__module__}.{kind.__name__}", []).append(title)
    return found


def _arguments() -> Iterator[tuple[str, str, ast.expr]]:
    """Each argument with its title, the module in which its annotation is written, and the annotation."""
    values = {title: name.value for title, name in public().items() if name.module != PARTS}
    values |= {kind.__name__: kind for kind in returned_types() if kind.__name__ in HOLDERS}
    for title, value in values.items():
        if inspect.isfunction(value):
            yield from _of_function(title, value)
        elif isinstance(value, type) and title not in _SEAMS:
            yield from _of_class(title, value)


def _of_class(title: str, owner: type) -> Iterator[tuple[str, str, ast.expr]]:
    """The arguments of its methods. For a struct that callers make: its fields. A class method of a class that the official SDK
    has too makes an object from one of the engine; only the engine calls it."""
    if title in _MADE:
        body: Any = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        fields = (node for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
        yield from ((f"{title}.{node.target.id}", owner.__module__, node.annotation) for node in fields)  # type: ignore[union-attr]
    for name, method in inspect.getmembers(owner, lambda value: inspect.isfunction(value) or inspect.ismethod(value)):
        is_made = inspect.ismethod(method) and owner.__module__ in MIRRORS
        if name[0] != "_" and name != "create" and not is_made:
            yield from _of_function(f"{title}.{name}", method)


def _of_function(title: str, function: Any) -> Iterator[tuple[str, str, ast.expr]]:
    inner = inspect.unwrap(function)
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(inner))).body[0]
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if argument.annotation is not None:
            yield f"{title}({argument.arg})", inner.__module__, argument.annotation
