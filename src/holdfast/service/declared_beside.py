"""What Python files declare beside their functions: queues and schedules that are values of module variables."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from holdfast.service.declared_queues import Queue
from holdfast.service.schedule_declarations import Schedule

_T = TypeVar("_T")


def queues_beside(functions: Iterable[object]) -> tuple[Queue, ...]:
    """The queues that the modules of these functions declare, each once."""
    return _beside(functions, Queue)


def schedules_beside(functions: Iterable[object]) -> tuple[Schedule, ...]:
    """The schedules that the modules of these functions declare, each once."""
    return _beside(functions, Schedule)


def each_once(schedules: Iterable[Schedule]) -> tuple[Schedule, ...]:
    """These schedules, without repeats. A schedule can be found twice, if one file imports another and both are given."""
    found = {(one.name, one.definition(), one.input_text()): one for one in schedules}
    return tuple(found.values())


def _beside(functions: Iterable[object], kind: type[_T]) -> tuple[_T, ...]:
    modules = dict.fromkeys(getattr(function, "__module__", "") for function in functions)
    found = [value for module in modules for value in vars(sys.modules.get(module, object)).values() if isinstance(value, kind)]
    return tuple(one for place, one in enumerate(found) if not any(one is other for other in found[:place]))
