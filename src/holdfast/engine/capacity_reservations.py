"""Room for invocations: the engine reserves room before the write that claims an execution, and gives it back if the write claimed nothing.

A start, a wake-up and a birth (the start of an invoked child) may claim the execution that they make ready in their own write. The
checkpoint of the parent writes the birth. The engine reserves the child's room before that checkpoint, and the child begins when the commit
reports it (`Invocations.followed`). When the answer to the checkpoint is there, the room of each child that the checkpoint did not start is
given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from holdfast.engine.live_parents import LiveParents
from holdfast.engine.registry import Function, Registry
from holdfast.engine.writer import Writer
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Birth, Claimant, Execution, State
from holdfast.model.ids import IdSource
from holdfast.model.operations import Failure, Status
from holdfast.model.transitions import Children
from holdfast.model.verbs import Answer, Checkpointed


class Expected(NamedTuple):
    """A child whose start is being written, together with a claim of this runner: the function whose room the child takes, and its
    input."""

    function: Function
    input: str


class CapacityReservations:
    """The reserved capacity of one runner."""

    def __init__(self, registry: Registry, parents: LiveParents, writer: Writer, *, clock: Clock, ids: IdSource, runner: str) -> None:
        self._registry, self._parents, self._writer = registry, parents, writer
        self._clock, self._ids, self._runner = clock, ids, runner
        self._expected: dict[str, Expected] = {}
        """By the id of the invocation that will begin: the expected child."""
        self.doubt: Callable[[Answer | HoldfastError], None] = lambda _: None
        """Called when a write that may contain a claim has failed."""

    def reserve(self, function: Function, now: int) -> Claimant | None:
        """Reserve room for one invocation. Returns the claimant that a write may use, with the id of a new invocation; None if there is no
        room."""
        if function.capacity.free <= 0:
            return None
        function.capacity.free -= 1
        return Claimant(self._runner, self._ids(now))

    def for_births(self, children: Children) -> Children:
        """The children of a checkpoint, each with a claimant if its function is hosted here and has room. A child that is enqueued gets no
        claimant. While the engine closes, no child gets one."""
        if not self._writer.open:
            return children
        now = self._clock.now()
        return {at: self._claimed(child, now) if isinstance(child, Birth) else child for at, child in children.items()}

    def _claimed(self, child: Birth, now: int) -> Birth:
        function = self._registry.get(child.header.function, child.header.version)
        by = None if function is None or child.enqueue is not None else self.reserve(function, now)
        if function is None or by is None:
            return child
        self._expected[by.invocation] = Expected(function, child.input)
        self._parents.add(child.header)
        return msgspec.structs.replace(child, by=by)

    def answered(self, children: Children, answer: Checkpointed | HoldfastError) -> None:
        """After the answer to a checkpoint with births: give back the room of each child that the checkpoint did not make."""
        operations = answer.operations if isinstance(answer, Checkpointed) else ()
        made = {operation.id for operation in operations if operation.status is Status.STARTED}
        for at, child in children.items():
            if at not in made:
                self._give_back(child)
        if isinstance(answer, HoldfastError):
            self.doubt(answer)

    def _give_back(self, child: Birth | Failure) -> None:
        if not isinstance(child, Birth) or child.by is None:
            return
        expected = self._expected.pop(child.by.invocation, None)
        if expected is not None:
            expected.function.capacity.free += 1
            self._parents.remove(child.header)

    def taken(self, header: Execution) -> Expected | None:
        """The function for which room was reserved, and the input, of a child that was claimed by the write that started it; None for any
        other execution. A second call for the same child returns None."""
        if header.state is not State.RUNNING or header.invocation is None:
            return None
        return self._expected.pop(header.invocation, None)
