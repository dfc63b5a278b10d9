"""Several hosts as one. An invocation goes to the host of its function; every other call goes to all hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.model.errors import FunctionNotFound
from holdfast.model.execution import Outcome
from holdfast.model.ports import Host, Invocation, Port


class Home(Host, Protocol):
    """A host that knows what it runs."""

    def hosts(self, function: str, version: str) -> bool:
        """Whether this function runs here."""
        ...


class ChoosingHost:
    """Several hosts as one."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = tuple(homes)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation in the host that has its function."""
        header = invocation.header
        for home in self._homes:
            if home.hosts(header.function, header.version):
                home.invoke(invocation, port, done)
                return
        raise FunctionNotFound(f"Function {header.function!r} has no version {header.version} here.")

    def cancel(self, execution: str) -> None:
        """End an invocation, in whichever host it runs."""
        for home in self._homes:
            home.cancel(execution)

    def nudge(self, execution: str) -> None:
        """Tell all hosts; the one that runs the execution acts on it."""
        for home in self._homes:
            home.nudge(execution)

    def idle(self) -> bool:
        """Whether nothing runs anywhere."""
        return all(home.idle() for home in self._homes)
