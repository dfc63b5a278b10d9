"""The functions of a process in the form that the engine registers, with their shared capacities."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.durable.execution import DurableFunction
from holdfast.engine.registry import Capacity, Function
from holdfast.service.settings import Settings


def registered(functions: Sequence[DurableFunction], settings: Settings) -> list[Function]:
    """The functions of this process in the form that the engine registers. All async functions share one capacity, and all blocking
    functions another. If `Settings.at_once` is set, all functions share one."""
    one = None if settings.at_once is None else Capacity(settings.at_once)
    coroutines, threads = one or Capacity(settings.live), one or Capacity(settings.threads)
    room = [coroutines if f.is_async else threads for f in functions]
    return [Function(name=f.name, version=f.version, terms=f.terms, capacity=c, kind=f.kind) for f, c in zip(functions, room, strict=True)]
