"""What Python files declare beside their functions: queues and schedules that are values of module variables."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from holdfast.queues.declarations import Queue
from holdfast.schedules.declarations import Schedule

_T = TypeVar("_T")
_WORDS: Final = frozenset({"Queue", "Schedule"})


def queues_beside(functions: Iterable[object], *modules: ModuleType) -> tuple[Queue, ...]:
    """The queues that are values of variables in these modules, and in the modules of these functions, each once."""
    return _beside(functions, modules, Queue)


def schedules_beside(functions: Iterable[object], *modules: ModuleType) -> tuple[Schedule, ...]:
    """The schedules that are values of variables in these modules, and in the modules of these functions, each once."""
    return _beside(functions, modules, Schedule)


def names_declared(file: Path) -> list[str]:
    """The names of the module variables of a file whose values are calls of `Queue` or `Schedule`. The file is read, not run. Empty if the
    file cannot be read or is not valid Python."""
    try:
        lines = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    named = [(line.targets, line.value) for line in lines if isinstance(line, ast.Assign)]
    named += [([line.target], line.value) for line in lines if isinstance(line, ast.AnnAssign) and line.value is not None]
    return [ast.unparse(targets[0]) for targets, value in named if isinstance(value, ast.Call) and _word(value.func) in _WORDS]


def not_declared_told(file: Path) -> str | None:
    """A warning for a person: this file of workers has module variables with a `Queue` or a `Schedule`, but Holdfast does not know them,
    because it does not import a file of workers. None if the file has no such variable. Call this only for a file with workers or
    pipelines: it is not checked."""
    names = names_declared(file) if file.suffix == ".py" else []
    if not names:
        return None
    where = "a Python file without workers, or in holdfast.toml"
    return f"{file}: it has workers or pipelines, so it is not imported, and does not declare {', '.join(names)}: declare it in {where}"


def each_once(schedules: Iterable[Schedule]) -> tuple[Schedule, ...]:
    """These schedules without repeats: of several with the same name, definition and input, one is kept. A schedule can be found twice, if
    one file imports another and both are given. Raises ScheduleInvalid or InvalidParameter if a value of a schedule is not allowed."""
    found = {(one.name, one.definition(), one.input_text()): one for one in schedules}
    return tuple(found.values())


def _word(called: ast.expr) -> str:
    """The last name in the expression that is called: `Queue` for `holdfast.Queue(…)`. Empty if the expression is not a name."""
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _beside(functions: Iterable[object], modules: Iterable[ModuleType], kind: type[_T]) -> tuple[_T, ...]:
    names = dict.fromkeys(getattr(function, "__module__", "") for function in functions)
    places = [*modules, *(sys.modules[name] for name in names if name in sys.modules)]
    found = [value for place in places for value in vars(place).values() if isinstance(value, kind)]
    return tuple(one for place, one in enumerate(found) if not any(one is other for other in found[:place]))
