"""The specification of a store. A backend's job is defined: obey this, and pass the store's suite.

A store keeps executions, their operations and their events. Every change goes through `commit`: it takes a batch of writes,
lets each decide on the rows as they are inside one transaction, and answers each on its own. When `commit` returns, everything
it answered is on disk. All verbs block and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, Terms
from holdfast.model.history import Event
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation
from holdfast.model.verbs import Answer, Write


class Target(msgspec.Struct, frozen=True):
    """A function and version that a runner hosts."""

    function: str
    version: str


class Hosted(msgspec.Struct, frozen=True):
    """A function as any process of the store may know it: what its executions are granted."""

    function: str
    version: str
    terms: Terms


class Committed(NamedTuple):
    """What a batch came to: an answer for each entry, or why it alone was refused; and every execution that changed because of them."""

    answers: Sequence[Answer | HoldfastError]
    followed: Sequence[Execution] = ()


class Line(msgspec.Struct, frozen=True):
    """One event with the operation it tells of."""

    event: Event
    operation: Operation | None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions to list, newest first unless `oldest_first`."""

    function: str | None = None
    version: str | None = None
    name: str | None = None
    statuses: tuple[ExecutionStatus, ...] = ()
    started_after: int | None = None
    started_before: int | None = None
    oldest_first: bool = False
    beyond: str | None = None
    """The id of the last execution already seen."""
    limit: int = 100


class Store(Protocol):
    """Everything durable, behind verbs."""

    @property
    def seal(self) -> Seal:
        """Seals tokens and callback ids with this store's own key."""
        ...

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Write a batch in one transaction, with what it brings to other executions (model.chaining), and answer each entry.

        Entries of one execution are decided in order. A refused entry changes nothing and spoils no other. An error of the whole
        batch is raised, and then nothing of it is on disk.
        """
        ...

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """Executions a runner may claim: ready ones of its functions, and those that a dead runner left behind."""
        ...

    def suspect(self, targets: Sequence[Target]) -> str | None:
        """A ready execution that only a runner with nothing else to do may claim, because too many have died under it."""
        ...

    def due(self, now: int, limit: int) -> Sequence[str]:
        """Executions that may have a timer due."""
        ...

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """When the next timer or delayed retry comes, if any."""
        ...

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell all processes what is hosted here, and on what terms."""
        ...

    def hosted(self, function: str) -> Sequence[Hosted]:
        """The versions of a function that some process has ever published."""
        ...

    def find(self, execution: str) -> Execution | None: ...
    def find_named(self, function: str, name: str) -> Execution | None: ...
    def input(self, execution: str) -> str | None: ...
    def result(self, execution: Execution) -> str | None:
        """The payload of its terminal event: a result, or the JSON of an error."""
        ...

    def operations(self, execution: str, newer_than: int = 0) -> Sequence[Operation]:
        """Its operations changed after a revision, in the order they began."""
        ...

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[Line]:
        """Its events after a number, in order."""
        ...

    def list(self, wanted: Filter) -> Sequence[Execution]: ...

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner, with a sign of life that ends with this process. It is named like the member that opened the store."""
        ...

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend a runner's lease; False when somebody declared it dead."""
        ...

    def leave(self, runner: str) -> None: ...

    def dead(self, now: int) -> frozenset[str]:
        """Runners that hold something but are gone, or silent past their lease; asking declares them dead, so they cannot renew."""
        ...

    def held(self, runner: str) -> Collection[str]:
        """The executions whose live invocation is this runner's."""
        ...

    def changed(self) -> bool:
        """Whether another process wrote since the last call; cheap enough to ask twenty times a second."""
        ...

    def close(self) -> None: ...
