"""The write that ends an invocation."""

from __future__ import annotations

import random

from holdfast.model.clock import Clock
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.ids import IdSource
from holdfast.model.life import Claimant
from holdfast.model.verbs import Settle


class Settling:
    """Makes these writes, with the chance and the ids that an outcome needs."""

    def __init__(self, clock: Clock, ids: IdSource, chance: random.Random) -> None:
        self._clock = clock
        self._ids = ids
        self._chance = chance

    def settle(self, header: Execution, outcome: Outcome, seen: int, by: Claimant | None = None) -> Settle:
        """The end of an invocation that had seen everything up to a revision; `by` takes the execution again if it is ready at once."""
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

    def interrupt(self, header: Execution) -> Settle:
        """The end of an invocation that did nothing wrong: anybody may go on at once, and it counts nowhere."""
        return self.settle(header, Outcome(OutcomeStatus.INTERRUPTED), header.revision)
