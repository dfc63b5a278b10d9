"""The public names of Holdfast. What is not among them may change without notice."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

WHOLE: Final = ("holdfast", "holdfast.durable", "holdfast.testing")
"""Modules all of whose listed names are public."""
MIRRORS: Final = tuple(
    f"holdfast.durable.{name}"
    for name in (
        *("config", "context", "execution", "retries", "waits", "types", "exceptions", "logger", "plugin", "plugin_discovery"),
        *("serdes", "filesystem_serdes", "preview", "lambda_service", "concurrency.models"),
    )
)
"""Modules named as the official SDK names its own: the classes and functions that their text defines are public."""
CHOSEN: Final = {
    "holdfast.durable.config": ("JitterStrategy",),
    "holdfast.durable.retries": ("RetryDecision",),
    "holdfast.durable.serdes": ("SerDes", "SerDesContext"),
    "holdfast.testing.worker_kit": ("Ran", "crash_everywhere", "run"),
    "holdfast.testing.pipeline_kit": ("NodeRun", "Ran", "crash_everywhere", "run"),
    "holdfast.testing.stores": ("SharedStoreSuite", "StoreSuite"),
}
INSIDE: Final = frozenset(
    {"CompletionPolicy", "CompletionRecord", "envelope_summary_generator", "HasExecutionArn", "HasIdentity", "TypeTag", "wire_name"}
)
"""Names in the mirrors that only Holdfast itself uses."""
VERBS: Final = ("DurableContext", "OpenEngine", "OpenExecution", "Pipeline", "Runner", "ToolCall", "WorkerContext")
"""Classes each of whose methods has an entry and an example of its own."""


@dataclass(frozen=True)
class Name:
    """A public name: the module to import it from, its title on the pages, and the object."""

    module: str
    title: str
    value: Any


def public() -> dict[str, Name]:
    """Every public name by its title. An object that several modules have is listed once, for the first of them."""
    found: dict[int, Name] = {}
    for module in WHOLE:
        loaded = importlib.import_module(module)
        _add(found, module, [name for name in dir(loaded) if name[0] != "_"] if module == "holdfast" else loaded.__all__)
    for module in MIRRORS:
        _add(found, module, _defined(module) - INSIDE)
    for module, chosen in CHOSEN.items():
        _add(found, module, chosen)
    return {name.title: name for name in found.values()}


def _add(found: dict[int, Name], module: str, names: Iterable[str]) -> None:
    taken = {name.title for name in found.values()}
    for name in sorted(names):
        value = getattr(importlib.import_module(module), name)
        if id(value) not in found:
            found[id(value)] = Name(module, f"{module.rpartition('.')[2]}.{name}" if name in taken else name, value)


def _defined(module: str) -> set[str]:
    loaded = importlib.import_module(module)
    mine = {node.name for node in ast.parse(inspect.getsource(loaded)).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {name for name in mine | set(getattr(loaded, "__all__", ())) if name[0] != "_"}


def methods(cls: type) -> dict[str, Any]:
    """The public methods of a class."""
    return {name: value for name, value in inspect.getmembers(cls, inspect.isfunction) if name[0] != "_"}


def needed() -> set[str]:
    """Everything that needs an entry and an example."""
    names = public()
    return {*names, *(f"{title}.{method}" for title in VERBS for method in methods(names[title].value))}
