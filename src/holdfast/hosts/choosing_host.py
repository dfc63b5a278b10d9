"""Several hosts as one. An invocation goes to the first host that has its function; the other calls of the Host protocol go to all
hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from holdfast.model.errors import FunctionNotFound
from holdfast.model.execution import Execution, Outcome
from holdfast.model.operations import Operation
from holdfast.model.ports import Host, Invocation, Port


class Home(Host, Protocol):
    """A host that can say which functions it runs."""

    def hosts(self, function: str, version: str) -> bool:
        """Whether this host runs this version of the function."""
        ...


class ChoosingHost:
    """Several hosts as one."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = tuple(homes)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation in the first host that has its function and version. Raises FunctionNotFound if no host has them."""
        header = invocation.header
        for home in self._homes:
            if home.hosts(header.function, header.version):
                home.invoke(invocation, port, done)
                return
        raise FunctionNotFound(f"Function {header.function!r} has no version {header.version} here.")

    def cancel(self, execution: str) -> None:
        """Tell all hosts that this process may not write to the execution any more. The host that runs its invocation ends the invocation,
        if it can."""
        for home in self._homes:
            home.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell all hosts that a write which the live invocation of this execution did not make has changed it (`Host.learn`). Only the host
        that runs the invocation reacts."""
        for home in self._homes:
            home.learn(header, operations)

    def recheck(self, execution: str) -> None:
        """Tell all hosts to let the live invocation of this execution ask again whether it may stay live. Only the host that runs the
        invocation reacts."""
        for home in self._homes:
            home.recheck(execution)

    def idle(self) -> bool:
        """Whether no invocation runs in any of the hosts."""
        return all(home.idle() for home in self._homes)
