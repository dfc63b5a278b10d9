"""Admissions: a runner asks the store for executions that wait in queues, and begins their invocations. The store decides which execution
is admitted next (store.admission_order). `start_all` makes many new executions with one write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast, overload

from holdfast.engine.agenda import Agenda
from holdfast.engine.entries import Admission, Bulk, LotAnswer
from holdfast.engine.health import spared
from holdfast.engine.invocations import Invocations
from holdfast.engine.registry import Capacity, Registry
from holdfast.engine.unsure_claims import UnsureClaims
from holdfast.engine.writer import Writer
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Claimant, Execution
from holdfast.model.ids import IdSource
from holdfast.model.verbs import Answer, Start, Started
from holdfast.store.seam import ExecutionStore, Target

_SMALL: Final = 64 * 1024
"""The inputs of admitted executions are read together. The input of an execution with more stored bytes than this is left out: its
invocation reads it later."""


class _Claimants(Sequence[Claimant]):
    """As many claimants as there is room for executions. Each claimant has the id of its own invocation. A claimant is made only when the
    store asks for it, because most admissions find few executions."""

    def __init__(self, count: int, make: Callable[[], Claimant]) -> None:
        self._count, self._make = count, make
        self._made: list[Claimant] = []

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Claimant: ...
    @overload
    def __getitem__(self, at: slice) -> list[Claimant]: ...
    def __getitem__(self, at: int | slice) -> Claimant | list[Claimant]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(self._count))]
        at = at + self._count if at < 0 else at
        if not 0 <= at < self._count:
            raise IndexError(at)
        while len(self._made) <= at:
            self._made.append(self._make())
        return self._made[at]


class Admissions:
    """Asks the store to admit queued executions for one runner, and begins their invocations."""

    def __init__(
        self,
        store: ExecutionStore,
        writer: Writer,
        registry: Registry,
        agenda: Agenda,
        invocations: Invocations,
        claims: UnsureClaims,
        *,
        clock: Clock,
        ids: IdSource,
        runner: str,
    ) -> None:
        self._store = store
        self._writer, self._registry, self._agenda, self._invocations, self._claims = writer, registry, agenda, invocations, claims
        self._clock, self._ids, self._runner = clock, ids, runner

    async def admit(self, targets: Sequence[Target], capacity: Capacity, room: int) -> int:
        """Let the store admit at most `room` queued executions of these functions, and begin them. Returns how many were admitted. The
        caller has reserved the room in `capacity`; room that is not used is given back. If the write fails, the error is raised, and a
        second later the runner looks whether the failed write has claimed executions after all."""
        now = self._clock.now()
        lot = Admission(targets, _Claimants(room, lambda: Claimant(self._runner, self._ids(now))))
        taken: list[Execution] = []

        def on_answer(answer: LotAnswer | HoldfastError) -> None:
            if isinstance(answer, HoldfastError):
                self._agenda.queued = True
                self._claims.answered(answer)
            else:
                taken.extend(one for one in answer.answers if isinstance(one, Execution))
                if answer.opens_at is not None:
                    self._agenda.plan(answer.opens_at)
            capacity.free += room - len(taken)
            if self._agenda.backlog and len(taken) < room:  # a start that found no room may try again now
                self._agenda.ring()
            inputs = self._inputs(taken)
            for header in taken:
                with spared(header.id):
                    self._begin(header, capacity, inputs.get(header.id))

        await self._writer.write_lot(lot, on_answer)
        return len(taken)

    def _inputs(self, taken: Sequence[Execution]) -> Mapping[str, str | None]:
        """By the id of the execution: the inputs that are not larger than `_SMALL`, of executions that begin for the first time. Empty if
        the read fails. An invocation whose input is not here reads the input itself."""
        wanted = [header.id for header in taken if header.epoch == 1 and header.stored <= _SMALL]
        try:
            return self._store.inputs(wanted) if wanted else {}
        except HoldfastError:  # if an input cannot be read, only its own execution has the error
            return {}

    def _begin(self, header: Execution, capacity: Capacity, payload: str | None) -> None:
        function = self._registry.get(header.function, header.version)
        if function is not None:
            self._invocations.begin(header, function, payload)
        else:  # the function was removed from this runner in between
            capacity.free += 1
            self._invocations.interrupt(header)

    async def start_all(self, starts: Sequence[Start]) -> Sequence[Started | HoldfastError]:
        """Write many starts together, and claim no execution. Returns an answer or an error for each start, in the order of `starts`. If
        the write fails as a whole, the error is raised."""
        answers: list[Answer | HoldfastError] = []

        def on_answer(answer: LotAnswer | HoldfastError) -> None:
            if isinstance(answer, LotAnswer):
                answers.extend(answer.answers)
            for one in answers:
                if isinstance(one, Started) and one.created:
                    self._invocations.made(one.header)

        await self._writer.write_lot(Bulk(starts), on_answer)
        return cast("Sequence[Started | HoldfastError]", answers)
