"""The public names of Holdfast. What is not among them may change without notice."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

WHOLE: Final = ("holdfast", "holdfast.durable", "holdfast.signals", "holdfast.testing")
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
    "holdfast.durable.context": ("AsyncCallback", "AsyncTimer", "Callback", "Invocable", "Timer"),
    "holdfast.durable.types": ("LoggerInterface",),
    "holdfast.durable.retries": ("RetryDecision",),
    "holdfast.durable.serdes": ("SerDes", "SerDesContext"),
    "holdfast.testing.worker_kit": ("WorkerRan", "crash_everywhere", "run"),
    "holdfast.testing.pipeline_kit": ("NodeRun", "PipelineRan", "crash_everywhere", "run"),
    "holdfast.testing.stores": ("SharedStoreSuite", "StoreSuite"),
    "holdfast.store.seam": ("Store",),
    "holdfast.store.sqlite.store": ("SqliteStore",),
}
PARTS: Final = "holdfast.testing.stores"
"""A module with many public names of one kind: a table on a page lists them, and not an entry each."""
INSIDE: Final = frozenset(
    {
        *("CompletionPolicy", "CompletionRecord", "envelope_summary_generator", "HasExecutionArn", "HasIdentity", "succeeded"),
        *("TypeTag", "wire_name"),
    }
)
"""Names in the mirrors that only Holdfast itself uses."""
VERBS: Final = ("Client", "DurableContext", "OpenEngine", "OpenExecution", "Pipeline", "Runner", "ToolCall", "WorkerContext")
"""Classes each of whose methods has an entry and an example of its own."""
HOLDERS: Final = {
    "Schedules": "holdfast.schedules.store_schedules",
    "StoreApprovals": "holdfast.service.store_approvals",
    "StoreQueues": "holdfast.queues.store_queues",
    "StoreRestarts": "holdfast.restarts.store_restarts",
    "StoreRuns": "holdfast.service.store_runs",
}
"""Classes with verbs, by the module that defines them. Programs do not import them: `client.queues.pause("emails")`."""
TWINS: Final = {"DurableContext": "AsyncDurableContext", "OpenEngine": "BlockingEngine", "OpenExecution": "BlockingExecution"}
"""Classes with a twin that has the same methods, to be called with `await` or without it. One entry shows a method of both."""


@dataclass(frozen=True)
class Name:
    """A public name: the module to import it from, its title on the pages, and the object."""

    module: str
    title: str
    value: Any


@functools.cache
def public() -> dict[str, Name]:
    """Every public name by its title. An object that several modules have is listed once, for the first of them."""
    found: dict[int, Name] = {}
    for module in WHOLE:
        loaded = importlib.import_module(module)
        _add(found, module, [name for name in dir(loaded) if name[0] != "_"] if module == "holdfast" else loaded.__all__)
    for module in MIRRORS:
        _add(found, module, _defined(module) - INSIDE | set(CHOSEN.get(module, ())))
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


def parts() -> dict[str, Any]:
    """The public names that a table lists, by their names."""
    loaded = importlib.import_module(PARTS)
    return {name: getattr(loaded, name) for name in sorted(loaded.__all__) if name not in CHOSEN[PARTS]}


def importable() -> set[tuple[str, str]]:
    """Every pair of a module and a name that a program may import: the listed names, and the modules that list them."""
    found = {(module, name) for module in WHOLE for name in getattr(importlib.import_module(module), "__all__", ())}
    found |= {("holdfast", name) for name in dir(importlib.import_module("holdfast"))}
    shown = {id(name.value) for name in public().values()}
    for module in MIRRORS:  # `Duration` is a name of the official `config`, whichever module of Holdfast defines it
        found |= {(module, name) for name, value in vars(importlib.import_module(module)).items() if id(value) in shown}
    found |= {(module, name) for module, chosen in CHOSEN.items() for name in chosen}
    found |= {(PARTS, name) for name in parts()}
    modules = {*WHOLE, *MIRRORS, *CHOSEN}
    return found | {(module.rpartition(".")[0], module.rpartition(".")[2]) for module in modules} | {(module, "") for module in modules}


def methods(cls: type) -> dict[str, Any]:
    """The public methods of a class. `create` is not one of them: `holdfast.open` calls it."""
    found = inspect.getmembers(cls, lambda value: inspect.isfunction(value) or inspect.ismethod(value))
    return {name: value for name, value in found if name[0] != "_" and name != "create"}


def needed() -> set[str]:
    """Everything that needs an entry and an example."""
    return {*public(), *(f"{title}.{method}" for title, owner in verb_owners().items() for method in methods(owner))}


@functools.cache
def verb_owners() -> dict[str, type]:
    """Every class each of whose methods has an entry and an example of its own, by its title."""
    names = public()
    held = {title: getattr(importlib.import_module(module), title) for title, module in HOLDERS.items()}
    return {title: names[title].value for title in VERBS} | held
