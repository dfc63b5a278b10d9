"""Room for invocations: the engine reserves room before the write that claims an execution, and gives it back if the write claimed nothing.

Three kinds of writes make an execution ready and may claim it at the same time: a start, a wake-up, and a birth. A birth is the start of a
child that a parent invokes; the checkpoint of the parent writes it. The engine reserves room for the child before that checkpoint, and the
child begins when the commit reports it (`Invocations.followed`). When the checkpoint is answered, the engine gives back the room of each
child that the checkpoint did not start. No room is reserved if the parent's handler runs on a thread, or if the checkpoint has a client
token: then the scheduler claims the child.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.engine.live_parents import LiveParents
from holdfast.engine.registry import Function, Registry
from holdfast.engine.unsure_claims import UnsureClaims
from holdfast.engine.writer import Writer
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Birth, Claimant, Execution, State
from holdfast.model.ids import IdSource
from holdfast.model.operations import Failure, Kind, Status
from holdfast.model.transitions import Children
from holdfast.model.verbs import Checkpointed


class Expected(NamedTuple):
    """A child that is being started and claimed by this runner in one write: the function whose room the child takes, and the child's
    input and kind."""

    function: Function
    input: str
    kind: Kind


class CapacityReservations:
    """Reserves capacity of one runner for invocations that are about to begin, and gives back what is not used."""

    def __init__(
        self, registry: Registry, parents: LiveParents, writer: Writer, claims: UnsureClaims, *, clock: Clock, ids: IdSource, runner: str
    ) -> None:
        self._registry, self._parents, self._writer, self._claims = registry, parents, writer, claims
        self._clock, self._ids, self._runner = clock, ids, runner
        self._expected: dict[str, Expected] = {}
        """By the id of the invocation that will begin: the expected child."""

    def reserve(self, function: Function, invocation: str, header: Execution, queue: str | None = None) -> Claimant | None:
        """Reserve room for an invocation of this execution; `invocation` is its id. Returns a claimant for the write that shall claim the
        execution. None if there is no room, or if this runner claims only executions of other queues or tenants (`Registry.only`).
        `queue`: the queue into which the write puts an execution that has no place yet; None: into none."""
        if function.capacity.free <= 0:
            return None
        only, place = self._registry.only, header.place
        in_queue = queue if place is None else place.queue
        if only is not None and not only.claims(in_queue, header.tenant, is_child=header.parent is not None):
            return None
        function.capacity.free -= 1
        return Claimant(self._runner, invocation)

    def for_births(self, children: Children) -> Children:
        """The children of a checkpoint, each with a claimant if `reserve` finds room for it here. A child that is enqueued gets no
        claimant. While the engine closes, no child gets one."""
        if not self._writer.open:
            return children
        now = self._clock.now()
        return {at: self._claimed(child, now) if isinstance(child, Birth) else child for at, child in children.items()}

    def _claimed(self, child: Birth, now: int) -> Birth:
        function = self._registry.get(child.header.function, child.header.version)
        by = None if function is None or child.enqueue is not None else self.reserve(function, self._ids(now), child.header)
        if function is None or by is None:
            return child
        self._expected[by.invocation] = Expected(function, child.input, child.kind)
        self._parents.add(child.header)
        return msgspec.structs.replace(child, by=by)

    def answered(self, children: Children, answer: Checkpointed | HoldfastError) -> None:
        """Called with the answer to a checkpoint that was to start children: give back the room of each child that the checkpoint did not
        start. If the checkpoint failed (and was not refused), its claims may be on disk nevertheless: a second later the runner gives back
        the executions that it holds and does not run."""
        operations = answer.operations if isinstance(answer, Checkpointed) else ()
        made = {operation.id for operation in operations if operation.status is Status.STARTED}
        for at, child in children.items():
            if at not in made:
                self._give_back(child)
        self._claims.answered(answer)

    def _give_back(self, child: Birth | Failure) -> None:
        if not isinstance(child, Birth) or child.by is None:
            return
        expected = self._expected.pop(child.by.invocation, None)
        if expected is not None:
            expected.function.capacity.free += 1
            self._parents.remove(child.header)

    def taken(self, header: Execution) -> Expected | None:
        """For a child that this runner claimed with the write that started it: the function whose room was reserved, and the child's input
        and kind. None for any other execution, and at a second call for the same child."""
        if header.state is not State.RUNNING or header.invocation is None:
            return None
        return self._expected.pop(header.invocation, None)
