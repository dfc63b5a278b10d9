"""A plugin that writes down all it is told, for either SDK, in a form in which two SDKs can be compared."""

from __future__ import annotations

import dataclasses
import enum
from collections import defaultdict
from datetime import datetime
from importlib import import_module
from typing import Any

from tests.flow.cases import Sdk

Told = tuple[str, dict[str, Any]]
"""A hook's name and what it was given."""

HOOKS = (
    "on_invocation_start",
    "on_invocation_end",
    "on_operation_start",
    "on_operation_end",
    "on_operation_change",
    "on_user_function_start",
    "on_user_function_end",
)
SOME_TIME = "some time"
"""The official SDK reads the machine's clock for the runs of functions, and for the ends of contexts that are not stored."""


class Recording:
    """A plugin factory; keeps what each of its plugins was told, one list for each invocation."""

    def __init__(self, root: str) -> None:
        self.invocations: list[list[Told]] = []
        plugin = import_module(f"{root}.plugin")

        def hook(name: str) -> Any:
            return lambda self, info: self.told.append((name, plain(info)))

        def metadata(self: Any, info: Any) -> Any:
            self.told.append(("provide_propagation_metadata", plain(info)))
            return plugin.PropagationMetadata(f"of {info.operation_id}")

        hooks = {name: hook(name) for name in HOOKS}
        self._plugin: Any = type("Recorder", (plugin.DurableInstrumentationPlugin,), {**hooks, "provide_propagation_metadata": metadata})

    def create_plugin(self, info: Any) -> Any:
        made = self._plugin()
        made.told = []
        self.invocations.append(made.told)
        return made


def with_plugins(sdk: Sdk, *factories: Any) -> Sdk:
    """The same SDK, whose functions have these plugins."""
    decorate: Any = sdk.durable_execution
    sdk.durable_execution = lambda func: decorate(func, plugins=list(factories))
    return sdk


def plain(value: Any) -> Any:
    """A value without the classes of its SDK."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(held) for key, held in value.items()}
    if isinstance(value, tuple):  # the wire of the test's host is not JSON
        return list(value)
    return value


def comparable(told: list[Told], execution: str) -> list[Told]:
    """Without what differs between any two executions: random ids, and the machine's time."""
    return [(name, _comparable(name, info, execution)) for name, info in told if name != "on_operation_change"]


def _comparable(name: str, info: dict[str, Any], execution: str) -> dict[str, Any]:
    info = dict(info)
    if "execution_arn" in info:
        info["execution_arn"] = info["execution_arn"].replace(execution, "the execution")
    if "operations" in info:
        assert info["request_id"]
        info["request_id"] = "an invocation"
        info["operations"] = without_ids(info["operations"], execution)
    if name.startswith("on_user_function"):
        info["start_time"], info["end_time"] = SOME_TIME, info["end_time"] and SOME_TIME
    elif name == "on_operation_end" and info["start_time"] is None:
        info["end_time"] = SOME_TIME
    return info


def without_ids(operations: dict[str, Any], execution: str) -> dict[str, Any]:
    """Operations by id; the execution's own is random."""
    named = {("the execution" if key == execution else key): dict(info) for key, info in operations.items()}
    named["the execution"]["operation_id"] = "the execution"
    return named


def by_operation(told: list[Told]) -> dict[str, list[Told]]:
    """What was told of each operation, in order; what is told of the invocation under one key."""
    found: dict[str, list[Told]] = defaultdict(list)
    for name, info in told:
        found[info.get("operation_id", "the invocation")].append((name, info))
    return found


def changes(told: list[Told]) -> dict[str, Any]:
    """The last that `on_operation_change` said of each operation: the number of calls is not promised."""
    found: dict[str, Any] = {}
    for name, info in told:
        if name == "on_operation_change":
            found |= info["updated_operations"]
            assert info["updated_operations"].keys() <= info["operations"].keys()
    return found


def without_second_runs(invocations: list[list[Told]]) -> list[list[Told]]:
    """Without the bodies that a replay runs again although they had ended, because nothing or too little is stored of them."""
    ended: set[str] = set()
    kept: list[list[Told]] = []
    for told in invocations:
        kept.append([(name, info) for name, info in told if info.get("operation_id") not in ended])
        ended |= {info["operation_id"] for name, info in told if name == "on_operation_end"}
    return kept
