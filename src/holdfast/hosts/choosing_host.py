"""Several hosts as one. An invocation goes to the first host that has its function; the other calls of the Host protocol go to all
hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from holdfast.model.errors import FunctionNotFound
from holdfast.model.execution import Execution, Outcome
from holdfast.model.operations import Operation
from holdfast.model.ports import Host, Invocation, Port


class FunctionHost(Host, Protocol):
    """A host that can say which functions it runs."""

    def hosts(self, function: str, version: str) -> bool:
        """Whether this host runs this version of the function."""
        ...


class ChoosingHost:
    """Several hosts as one."""

    def __init__(self, hosts: Sequence[FunctionHost]) -> None:
        self._hosts = tuple(hosts)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation in the first host that has its function and version. Raises FunctionNotFound if no host has them."""
        header = invocation.header
        for host in self._hosts:
            if host.hosts(header.function, header.version):
                host.invoke(invocation, port, done)
                return
        raise FunctionNotFound(f"Function {header.function!r} has no version {header.version} here.")

    def cancel(self, execution: str) -> None:
        """Tell all hosts that this process may not write to the execution any more. The host that runs its invocation ends the invocation,
        if it can."""
        for host in self._hosts:
            host.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell all hosts that a write which the live invocation of this execution did not make has changed it (`Host.learn`). Only the host
        that runs the invocation reacts."""
        for host in self._hosts:
            host.learn(header, operations)

    def recheck(self, execution: str) -> None:
        """Tell all hosts to let the live invocation of this execution ask again whether it may stay live. Only the host that runs the
        invocation reacts."""
        for host in self._hosts:
            host.recheck(execution)

    def idle(self) -> bool:
        """Whether no invocation runs in any of the hosts."""
        return all(host.idle() for host in self._hosts)
