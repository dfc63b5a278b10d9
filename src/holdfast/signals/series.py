"""Numbers for Prometheus's text format, each with one label (Series, family). Also the base class of observers of an
engine (Onlooker)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.model.execution import Execution, Outcome
from holdfast.model.operations import Operation
from holdfast.model.ports import Sight

MOST_SERIES: Final = 1000
"""A metric has at most this many series. A number that would need a further series is not kept."""


class Onlooker:
    """An observer of an engine. `started`, `invoked`, `operated` and `closed` are called for executions of functions, but not for runs of
    workers and pipelines that this engine hosts. The methods do nothing; a subclass overrides those that it needs."""

    def attach(self, sight: Sight) -> None:
        """Called when an engine opens. `sight` answers questions about that engine."""

    def started(self, header: Execution) -> None:
        """Called when an execution has begun. An execution that waits in a queue begins when it is admitted."""

    def invoked(self, header: Execution, outcome: Outcome, ended_at: int) -> None:
        """Called when an invocation has ended, at the time `ended_at`. `header` is the execution's header at the beginning of the
        invocation, or after a later write during it; it does not show the end of the invocation."""

    def operated(self, header: Execution, operation: Operation) -> None:
        """Called when a step or a child context has ended, or when a step will be tried again."""

    def closed(self, header: Execution) -> None:
        """Called when an execution has ended."""

    def committed(self, writes: int) -> None:
        """Called when the store has committed this many writes together."""


class Series:
    """Numbers by name, at most MOST_SERIES. The event loop writes them, and another thread may read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Add `count` to the number with this name. Does nothing if the name is new and there are MOST_SERIES names already."""
        self._put(name, self._values.get(name, 0) + count)

    def set(self, name: str, value: float) -> None:
        """Set the number with this name. Does nothing if the name is new and there are MOST_SERIES names already."""
        self._put(name, value)

    def _put(self, name: str, value: float) -> None:
        with self._lock:
            if name in self._values or len(self._values) < MOST_SERIES:
                self._values[name] = value

    def values(self) -> dict[str, float]:
        """A copy of all numbers."""
        with self._lock:
            return dict(self._values)


def family(name: str, what: str, kind: str, label: str, values: Mapping[str, float]) -> Iterator[str]:
    """The lines of one metric. `what` is its help text, `kind` its type for Prometheus, `label` the name of its only label; `values` has
    its numbers by the value of the label. That value is the name of a queue or a schedule, which has only letters, digits, `_`, `.` and
    `-`, so it needs no escapes."""
    yield f"# HELP {name} {what}"
    yield f"# TYPE {name} {kind}"
    for series, value in sorted(values.items()):
        yield f'{name}{{{label}="{series}"}} {value:g}' if value < 1e6 else f'{name}{{{label}="{series}"}} {value:.0f}'
