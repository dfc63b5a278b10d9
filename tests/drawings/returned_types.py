"""The types of the objects that public verbs return, and the types of their members, as far as they are no public names themselves."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

from tests.drawings.public_names import HOLDERS, TWINS, VERBS, public

_INSIDE: Final = frozenset({"Draft", "WorkerService"})
"""Types that only Holdfast's own servers and sandboxes use."""


def returned_types() -> dict[type, list[str]]:
    """Each type that a public verb returns, with these verbs; sorted by name."""
    names = public()
    owners = [(title, names[title].value) for title in VERBS if title not in TWINS.values()]
    found = _led_to((f"{title}.{member}", kind) for title, owner in owners for member, kind in _members(owner))
    holders = [kind for kind in found if kind.__name__ in HOLDERS]
    deeper = _led_to((f"{holder.__name__}.{member}", kind) for holder in holders for member, kind in _members(holder))
    for kind, verbs in deeper.items():
        found.setdefault(kind, []).extend(verbs)
    return dict(sorted(found.items(), key=lambda each: each[0].__name__))


def member_types(returned: Iterable[type]) -> dict[type, list[str]]:
    """Each type of a member of these types that is none of them, with the types that have such a member; sorted by name."""
    known = set(returned)
    found = _led_to((kind.__name__, inner) for kind in known for _, inner in _members(kind))
    return {kind: sorted(found[kind]) for kind in sorted(found, key=lambda each: each.__name__) if kind not in known}


def members_of(kind: type) -> list[str]:
    """The names of the fields of a type, or the values of an enumeration."""
    if issubclass(kind, Enum):
        return [repr(member.value) for member in kind]
    fields: Iterable[str] = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None) or ()
    return [name for name in fields if name[0] != "_"] or [name for name in vars(kind) if name[0] != "_"]


def _led_to(pairs: Iterable[tuple[str, type]]) -> dict[type, list[str]]:
    shown = {id(name.value) for name in public().values()}
    found: dict[type, list[str]] = {}
    for source, kind in pairs:
        if id(kind) not in shown and kind.__name__ not in _INSIDE:
            sources = found.setdefault(kind, [])
            if source not in sources:
                sources.append(source)
    return found


def _members(owner: type) -> Iterator[tuple[str, type]]:
    """The members of a class, its bases' too, each with the types of Holdfast in its annotation; for a method in what it returns."""
    for cls in owner.__mro__:
        if cls.__module__.partition(".")[0] != "holdfast":
            continue
        body: Any = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        for node in body.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if name[0] != "_":
                    yield from ((name, kind) for kind in types_in(annotation, cls.__module__))
                case (
                    ast.FunctionDef(name=name, returns=ast.expr() as returns)
                    | ast.AsyncFunctionDef(name=name, returns=ast.expr() as returns)
                ) if name[0] != "_":
                    yield from ((name, kind) for kind in types_in(returns, cls.__module__))


def types_in(annotation: ast.expr, module: str) -> Iterator[type]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            value = _named(module, node.id)
            if isinstance(value, type) and value.__module__.startswith("holdfast"):
                yield value


def _named(module: str, name: str) -> Any:
    """What a name means in a module, also if the module imports it only for type checkers."""
    found = vars(sys.modules[module])
    if name not in found and name in _imports(module):
        source, name = _imports(module)[name]
        return getattr(importlib.import_module(source), name)
    return found.get(name)


@functools.cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    nodes = ast.walk(ast.parse(inspect.getsource(sys.modules[module])))
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
