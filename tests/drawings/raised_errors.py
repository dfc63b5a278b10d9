"""The error classes of Holdfast, and those that the docstrings of public names say are raised."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from tests.drawings.public_names import methods, public
from tests.drawings.returned_types import returned_types


def error_classes() -> set[str]:
    """The names of HoldfastError and of all classes below it, from the source."""
    texts = (path.read_text(encoding="utf-8") for path in Path(holdfast.__path__[0]).rglob("*.py"))
    bases = {
        name: set(re.findall(r"\w+", below)) for text in texts for name, below in re.findall(r"^class (\w+)\((.+)\):", text, flags=re.M)
    }
    found = {"HoldfastError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def raised_errors() -> dict[str, list[str]]:
    """Each error class that docstrings name, with the public names that have these docstrings."""
    known = error_classes()
    found: dict[str, list[str]] = {}
    for title, value in _described():
        for name in sorted(known & set(re.findall(r"\w+", inspect.getdoc(value) or ""))):
            found.setdefault(name, []).append(title)
    return found


def _described() -> Iterator[tuple[str, Any]]:
    """Every public name, every type that verbs return, and the methods of both."""
    values = {title: name.value for title, name in public().items()} | {kind.__name__: kind for kind in returned_types()}
    for title, value in values.items():
        yield title, value
        if isinstance(value, type):
            yield from ((f"{title}.{verb}", method) for verb, method in methods(value).items())
