"""A host that replays at every step: each write that has an end or a wait in it is committed, and then its invocation is ended.

The handler is told that its lease is lost, as after a crash between the commit and the answer. The next invocation must reach the same
place by replay alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.clock import VirtualClock
from holdfast.model.errors import HoldfastError, LeaseLost
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Operation, Type, Update
from holdfast.model.ports import Invocation, OnAnswer, Port
from holdfast.model.verbs import Checkpointed
from tests.flow.official.running import ClosableHost, MakeHost

_BEGINNINGS = (Type.STEP, Type.CONTEXT)


def _tells(updates: Sequence[Update]) -> bool:
    """Whether a replay can take it from here. After a START alone it could not: then it is unknown whether the body has run."""
    return any(update.action is not Action.START or update.type not in _BEGINNINGS for update in updates)


class _Port:
    def __init__(self, port: Port, trip: Callable[[], None]) -> None:
        self._port = port
        self._trip = trip
        self._tripped = False

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        answer = self._port.checkpoint(token, updates, client_token)
        if self._ends(updates, answer):
            raise LeaseLost
        return answer

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        self._port.checkpoint_soon(token, updates, lambda answer: on_answer(LeaseLost() if self._ends(updates, answer) else answer))

    def _ends(self, updates: Sequence[Update], answer: Checkpointed | HoldfastError) -> bool:
        if isinstance(answer, Checkpointed) and answer.token is not None and _tells(updates):
            self._tripped = True
            self._trip()
        return self._tripped

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return self._port.state(token, newer_than)

    def input(self, token: Position) -> str | None:
        return self._port.input(token)


class Forgetful:
    """Any host, with ports that forget."""

    def __init__(self, host: ClosableHost) -> None:
        self._host = host
        self._tripped: set[str] = set()
        self.cancel, self.learn, self.recheck, self.idle, self.close = host.cancel, host.learn, host.recheck, host.idle, host.close

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        execution = invocation.header.id

        def ended(outcome: Outcome, seen: int) -> None:
            if execution in self._tripped:
                self._tripped.discard(execution)
                outcome = Outcome(OutcomeStatus.INTERRUPTED)
            done(outcome, seen)

        self._host.invoke(invocation, _Port(port, lambda: self._tripped.add(execution)), ended)


def forgetful(make: MakeHost) -> MakeHost:
    """A host that replays at every step."""

    def made(clock: VirtualClock) -> ClosableHost:
        return Forgetful(make(clock))

    return made
