"""The life of an invocation, one stage after the other, in the order of this file.

    claim ───▶ begin ───▶ run in the host ───▶ ended ───▶ settled ───▶ finish
      │          ▲              │                │ ▲         │  │
      │          │              │ lease lost     │ └─────────┘  │ ready again at once: the write that
      │          │              ▼                │  the store   │ settled it has claimed it, too
      │          │            drop               │  failed      │
      │          └───────────────────────────────┼──────────────┘
      └─ refused: the room is free again         └─ the engine closes: `interrupt_all` gives the execution back instead

1. claim    A write takes the execution for this runner: a start, a wake-up (an answer, a timer), a claim, an admission, or the checkpoint
            of a parent. Room is reserved before it.
2. begin    The write is on disk. The invocation is live from now on, and the host gets it.
3. run      The host runs the handler, which writes its checkpoints through the port (port.py).
4. ended    The host reports the outcome. The write that ends the invocation is a Settle.
5. settled  The Settle is on disk: the execution is closed, suspended, ready or claimed again, or quarantined.
6. finish   The room is free, and callers that wait for the end of the execution are answered.

When a write fails: a claim that may have been written is looked for a second later (unsure_claims.py); a Settle is tried again every
second, and one that the store can never write is replaced by a crash that says so. When the lease is lost, another runner has the
execution: the store refuses the handler's next checkpoint and its Settle, and this runner only makes room. The scheduler calls `fire` and
`claim`; everything here runs on the engine's loop.
"""

from __future__ import annotations

import contextlib
import logging
import random
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from holdfast.engine.agenda import Agenda
from holdfast.engine.capacity_reservations import CapacityReservations
from holdfast.engine.endings import Endings
from holdfast.engine.health import readable, spared
from holdfast.engine.live_parents import LiveInvocation, LiveParents
from holdfast.engine.outcomes import blameless, giving_back, uninvoked, unwritable, warn_of_crash
from holdfast.engine.port import EnginePort
from holdfast.engine.quarantine_messages import quarantined
from holdfast.engine.registry import Function, Registry
from holdfast.engine.unsure_claims import ClaimsStore, UnsureClaims
from holdfast.engine.writer import Writer
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, LeaseLost, Rejected, Retryable, RowDamaged, StoreBroken, WriteFailed
from holdfast.model.execution import Change, Claimant, Execution, ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.ids import Arn, IdSource, Position
from holdfast.model.operations import Kind, Operation
from holdfast.model.outside import Fire, Stop
from holdfast.model.ports import Host, Invocation
from holdfast.model.verbs import Answer, Claim, Settle, Start, Started, Write

log = logging.getLogger("holdfast.engine")
_AGAIN_SECONDS: Final = 1.0
NOTHING: Final[Mapping[str, Operation]] = {}


class Invocations:
    """Claims executions for one runner, lets the host run their invocations, and writes the ends of the invocations."""

    def __init__(
        self,
        store: ClaimsStore,
        writer: Writer,
        host: Host,
        port: EnginePort,
        registry: Registry,
        endings: Endings,
        agenda: Agenda,
        live: dict[str, LiveInvocation],
        reservations: CapacityReservations,
        parents: LiveParents,
        claims: UnsureClaims,
        *,
        loop: AbstractEventLoop,
        clock: Clock,
        ids: IdSource,
        chance: random.Random,
        runner: str,
    ) -> None:
        self._store, self._writer, self._host, self._port = store, writer, host, port
        self._registry, self._endings, self._agenda = registry, endings, agenda
        self._loop, self._clock, self._ids, self._chance, self._runner = loop, clock, ids, chance, runner
        self._live, self._reservations, self._parents, self._claims = live, reservations, parents, claims
        self._stays = parents.stays

    def is_live(self, execution: str) -> bool:
        """Whether an invocation of this execution runs here."""
        return execution in self._live

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing is being written."""
        return not self._live and self._writer.idle and self._host.idle()

    # --- 1. claim

    async def start(self, write: Start, function: Function) -> Execution:
        """Write a start. Returns the new execution, or the existing one that the start found. Raises the error if the start is refused or
        fails. If the write names a claimant, the caller has reserved the room for it; room that is not used is given back."""
        started = await self._writer.write(write, partial(self._started, write, function))
        return cast("Started", started).header

    def _started(self, write: Start, function: Function, answer: Answer | HoldfastError) -> None:
        made = answer.header if isinstance(answer, Started) and answer.created else None
        if made is not None and write.by is not None and made.invocation == write.by.invocation:
            self.begin(made, function, write.input, write.kind)
            return
        function.capacity.free += write.by is not None
        self._claims.answered(answer)
        if made is not None:
            self.made(made)
            if function.capacity.free > 0:  # a claim or an admission had taken the room and has given it back
                self._agenda.ring()

    def made(self, header: Execution) -> None:
        """Note that a new execution was made and that no runner has claimed it yet."""
        if header.place is not None:
            self._agenda.expect_queue(header)
        if header.state is State.READY:
            self._agenda.backlog = True
            self._parents.ask_for_room()

    async def wake(self, write: Callable[[Claimant | None], Write], execution: str) -> Answer:
        header = self._store.find(execution)
        function = None if header is None else self._registry.get(header.function, header.version)
        invocation = self._ids(self._clock.now())
        claimant = None if header is None or function is None else self._reservations.reserve(function, invocation, header)
        return await self._writer.write(write(claimant), partial(self._woken, function, claimant))

    def _woken(self, function: Function | None, claimant: Claimant | None, answer: Answer | HoldfastError) -> None:
        if function is not None and claimant is not None:
            if isinstance(answer, Execution) and answer.invocation == claimant.invocation:
                self._taken(answer, function)
                return
            function.capacity.free += 1
        self._claims.answered(answer)
        if isinstance(answer, Execution):
            self._moved(answer)

    async def stop(self, write: Stop) -> Execution:
        """Write a stop of an execution, and return its header after the write. An inherited stop (its parent was stopped or timed out, or a
        schedule replaces it) tells a run that listens for a cancel to cancel itself, and does not end it (unless it is quarantined, or its
        deadline has passed): if the run is ready then, the scheduler claims it in its next round."""
        header = cast("Execution", await self._writer.write(write))
        self._moved(header)
        return header

    async def fire(self, execution: str) -> None:
        """Fire the due timers of one execution. If the write is refused or fails, its error is raised."""
        await self.wake(partial(Fire, execution), execution)

    async def claim(self, execution: str, dead: frozenset[str], function: Function, *, alone: bool = False) -> None:
        """Claim one execution, and begin its invocation. The caller has reserved the room. `dead`: the runners that are dead; an execution
        that one of them holds may be claimed, too. `alone`: True for a suspect (two or more runners in a row died under it), which is not
        claimed if `alone` is False. If another runner was quicker, this call only gives the room back. Any other error is raised, after the
        room was given back."""
        write = Claim(execution, Claimant(self._runner, self._ids(self._clock.now())), dead, alone)
        with contextlib.suppress(LeaseLost):  # another runner was quicker
            await self._writer.write(write, partial(self._claimed, write, function))

    def _claimed(self, write: Claim, function: Function, answer: Answer | HoldfastError) -> None:
        if not isinstance(answer, Execution) or answer.invocation != write.by.invocation:
            function.capacity.free += 1
        self._claims.answered(answer)
        if isinstance(answer, Execution):
            self._taken(answer, function)

    def _taken(self, header: Execution, function: Function) -> None:
        """Called when the write of a claim is on disk. Begins the invocation, unless the write changed the execution without claiming it:
        it was closing, its deadline has passed, its payloads cannot be read, or too many runners died with it."""
        if header.state is State.RUNNING and header.runner == self._runner:
            self.begin(header, function)
        else:
            self._tell_if_quarantined(header)
            self.finish(header)

    # --- 2. begin, and 3. run in the host

    def begin(self, header: Execution, function: Function, payload: str | None = None, kind: Kind | None = None) -> None:
        """Let the host run the invocation of an execution whose claim is on disk. Its room is already reserved. `payload` and `kind`: the
        input and the kind of the execution; None: the invocation reads them if it needs them. If the engine closes, or does not host the
        function any more, the execution is given back instead."""
        execution = header.id
        if not self._writer.open or self._registry.get(header.function, header.version) is None:
            function.capacity.free += 1  # the claim was being written when the engine closed, or when the function was removed
            self.interrupt(header)
            return
        if execution in self._live:
            self._drop(execution)  # another runner had the execution in between, and this runner has not learned that yet
        live = self._live[execution] = LiveInvocation(header, function)
        self._parents.add(header)
        token = Position(execution, header.epoch, header.sequence, header.revision)
        arn = str(Arn(header.function, header.version, header.name, execution))
        is_fresh = header.epoch == 1 and not header.operations  # a restart begins with operations of an earlier execution
        invocation = Invocation(arn, header, token, is_fresh, payload, stays=self._stays, kind=kind)
        try:
            self._host.invoke(invocation, self._port, partial(self._ended, live))
        except Exception as error:  # a host that cannot begin is a failed invocation, not a failed engine
            if not isinstance(error, HoldfastError):
                log.exception("could not invoke %s", header.name)
            self._ended(live, uninvoked(error), header.revision)

    # --- 4. ended

    def _ended(self, live: LiveInvocation, outcome: Outcome, seen: int) -> None:
        """Write the end of an invocation. The host calls this with the outcome, and with the last revision of the execution that the
        handler knew. Does nothing while the engine closes: `interrupt_all` then gives the execution back."""
        if self._writer.open:
            outcome = blameless(outcome)
            # Only an execution that waits can be ready again at once, so only a PENDING outcome gets the id of a next invocation.
            by = Claimant(self._runner, self._ids(self._clock.now())) if outcome.status is OutcomeStatus.PENDING else None
            self._writer.submit(self._settle(live.header, outcome, seen, by), partial(self._settled, live, outcome, seen))

    def _settle(self, header: Execution, outcome: Outcome, seen: int, by: Claimant | None = None) -> Settle:
        return Settle(
            execution=header.id,
            epoch=header.epoch,
            invocation=header.invocation or "",
            seen=seen,
            outcome=outcome,
            jitter=self._chance.random() if outcome.status is OutcomeStatus.CRASHED else 1.0,
            by=by,
            successor=self._ids(self._clock.now()) if outcome.status is OutcomeStatus.CONTINUED else None,
        )

    # --- 5. settled

    def _settled(self, live: LiveInvocation, outcome: Outcome, seen: int, answer: Answer | HoldfastError) -> None:
        if isinstance(answer, Execution):
            self._make_room(live)
            self._go_on(live.function, outcome, answer)
        elif isinstance(answer, HoldfastError):
            self._not_settled(live, outcome, seen, answer)

    def _go_on(self, function: Function, outcome: Outcome, header: Execution) -> None:
        """Called when the end of an invocation is on disk. If the same write has claimed the execution again, begin the next invocation. If
        the execution has ended or is quarantined, answer the callers that wait for it. If it is not closed, note in the agenda when the
        scheduler must look for it."""
        if outcome.status is OutcomeStatus.CRASHED:
            warn_of_crash(outcome, header, self._clock.now())
        if header.state is State.RUNNING and header.runner == self._runner:
            function.capacity.free -= 1  # the room that this invocation has just given back, also if there is no room for others
            self.begin(header, function)
            return
        self._tell_if_quarantined(header)
        succeeded = outcome.status is OutcomeStatus.SUCCEEDED and header.status is ExecutionStatus.SUCCEEDED
        self.finish(header, outcome.result if succeeded else None)
        if header.state is not State.CLOSED:
            self._agenda.expect(header)

    def _not_settled(self, live: LiveInvocation, outcome: Outcome, seen: int, trouble: HoldfastError) -> None:
        """Called when the write of an invocation's end failed. If the store can never write this end, write a crash instead; if that was
        tried before, log an error and give the room back. If the store failed, try again a second later. If the store refused it, because
        another runner has or ended the execution, give the room back."""
        header = live.header
        lost = isinstance(trouble, LeaseLost | Rejected)
        if isinstance(trouble, WriteFailed | RowDamaged):
            if (instead := unwritable(trouble, outcome)) is not None:
                self._ended(live, instead, seen)
                return
            log.error("the end of an invocation of %s cannot be written; a person must look at it: %s", header.name, trouble)
        elif not lost:  # the store failed; the invocation is over, so only its end is tried again
            log.warning("could not settle %s, trying again: %s", header.name, trouble)
            self._loop.call_later(_AGAIN_SECONDS, self._ended, live, outcome, seen)
            return
        self._make_room(live)
        self._learn_end(header.id, lost=lost)

    def _learn_end(self, execution: str, *, lost: bool) -> None:
        """Read an execution whose Settle failed for good, because callers here may wait for its end. `lost`: whether the store refused the
        Settle, because another runner has or ended the execution, or because an earlier try of the same Settle was written after all. If
        `lost` is False, the store can never write the Settle."""
        try:
            for current in readable(self._store, [execution], Retryable):
                self.finish(current, ours=False)
                if lost and current.runner == self._runner:
                    self._claims.let_go()  # the earlier try also claimed the execution
        except Retryable as trouble:
            log.warning("could not learn how %s ended, trying again: %s", execution, trouble)
            self._loop.call_later(_AGAIN_SECONDS, partial(self._learn_end, execution, lost=lost))

    # --- 6. finish

    def finish(self, header: Execution, payload: str | None = None, *, ours: bool = True) -> None:
        """If an execution has ended or is quarantined, answer the callers that wait for its end, and drop its invocation (unless the
        execution is still closing). Otherwise do nothing.

        `payload`: the result; None: it is read from the store. `ours`: whether this engine wrote the end.
        """
        aside = header.state is State.QUARANTINED
        if header.status is ExecutionStatus.RUNNING and not aside:
            return
        if header.state is State.CLOSED or aside:
            self._drop(header.id)
        self._endings.tell(header, payload, ours=ours)
        if header.place is not None:
            self._agenda.expect_queue(header)

    def _make_room(self, live: LiveInvocation) -> None:
        """Give back the room of an invocation that ended. If it was dropped before, its room is free already."""
        if self._live.get(live.header.id) is live:
            del self._live[live.header.id]
            self._parents.detach(live.header.id)
            self._parents.remove(live.header)
            live.function.capacity.free += 1
            if self._agenda.backlog or self._agenda.queued:
                self._agenda.ring()

    def _drop(self, execution: str) -> None:
        """Give up the invocation of an execution that is over or quarantined, or that this runner has lost: the host is told to cancel it,
        and its room is free at once."""
        self._host.cancel(execution)
        live = self._live.get(execution)
        if live is not None:
            self._make_room(live)

    def interrupt_all(self) -> None:
        """Called when the engine closes: tell the host to end all live invocations, and give their executions back, so that any runner may
        continue them at once."""
        for live in list(self._live.values()):
            with spared(live.header.id):
                self._host.cancel(live.header.id)
            self.interrupt(live.header)

    def interrupt(self, header: Execution) -> None:
        """Give back an execution that this runner has claimed, so that any runner may continue it at once."""
        self._writer.submit(giving_back(header), lambda _: None)

    def _tell_if_quarantined(self, header: Execution) -> None:
        if header.state is State.QUARANTINED:
            log.error("%s", quarantined(self._store, header))

    # --- what other writes and other processes do to executions

    def followed(self, changes: Sequence[Change]) -> None:
        """React to changes that a write of this engine made to other executions: children began or were stopped, parents got the results of
        their children."""
        for change in changes:
            with spared(change.header.id):
                self._follow(change)

    def _follow(self, change: Change) -> None:
        header = change.header
        child = self._reservations.taken(header)
        if child is not None:
            self.begin(header, child.function, child.input, child.kind)
        elif self._writer.open:
            self._moved(header, change.operations)

    def _moved(self, header: Execution, operations: Mapping[str, Operation] = NOTHING) -> None:
        """React to a write that changed an execution and did not claim it: answer the callers that wait for its end if the write ended it,
        and tell the host if it is live here (`Host.learn`). `operations`: the changed operations; empty: it is not known which changed."""
        self.finish(header)
        if header.state is State.RUNNING and header.id in self._live:
            self._host.learn(header, operations.values())
        self._agenda.backlog |= header.state is State.READY
        self._agenda.expect(header)

    def _ended_among(self, awaited: Sequence[str]) -> Sequence[str]:
        """Those of these executions that have ended, and those that cannot be read. One of these fails a query as a whole, so the query is
        then made for each half."""
        try:
            return self._store.ended(awaited)
        except StoreBroken:
            half = len(awaited) // 2
            return [*self._ended_among(awaited[:half]), *self._ended_among(awaited[half:])] if half else awaited

    def others_wrote(self) -> None:
        """After a write of another process: read what it did to the executions that callers here wait for, and to those that run here."""
        for header in readable(self._store, self._ended_among(self._endings.awaited)):
            with spared(header.id):
                self.finish(header, ours=False)
        self._parents.others_wrote(lambda waiting: list(readable(self._store, waiting)))
        if self._live:
            held = self._store.held(self._runner)
            for header in [live.header for execution, live in self._live.items() if execution not in held]:
                with spared(header.id):
                    now = self._store.find(header.id)
                    if now is None or now.epoch != header.epoch:
                        self._drop(header.id)
