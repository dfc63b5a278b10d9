"""The outbox: signals lie in the database with the changes they tell of, until every subscriber has had them.

Numbers are given out from one row, which a batch locks last of all and holds until its COMMIT (`write_signals`): so the order of numbers
is the order of commits, and who has seen a number never finds a smaller one later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.model.execution import Change, Execution, ExecutionStatus, Quarantine
from holdfast.model.ids import Arn
from holdfast.model.signals import StatusSignal, is_news, signal_row
from holdfast.store import rows
from holdfast.store.postgres.reads import Reading
from holdfast.store.views import RowView

log = logging.getLogger("holdfast.store")

_STATUSES: Final = frozenset(status.value for status in ExecutionStatus)
_REASONS: Final[Mapping[str | None, Quarantine | None]] = {None: None, **{reason.value: reason for reason in Quarantine}}


class Outbox(Reading):
    """The part of a store that tells of changes."""

    def subscribe(self, subscriber: str) -> None:
        """Register a subscriber, from now on: batches that began before it was there have ended when this returns."""
        if self._side.change(self._sql["subscribe"], (subscriber,)):
            with self._side.explained_transaction():
                self._side.run(self._sql["outwait_writers"], prepare=False)

    def unsubscribe(self, subscriber: str) -> None:
        """Forget a subscriber."""
        self._side.change(self._sql["unsubscribe"], (subscriber,))

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        """Become the one that delivers; whoever waits for it only reads."""
        holder = self._read("delivery", (subscriber,))
        if not holder or holder[0][0] not in (None, runner):
            return None
        taken = self._read("take_delivery", {"name": subscriber, "runner": runner})
        return int(taken[0][0]) if taken else None

    def signals(self, subscriber: str, runner: str, after: int, limit: int) -> Sequence[StatusSignal] | None:
        """The next signals, for the one that delivers them."""
        if not self._read("is_holder", (subscriber, runner)):
            return None
        return self.kept_signals(after, limit)

    def kept_signals(self, after: int, limit: int) -> Sequence[StatusSignal]:
        """Signals that are still in the table, whoever has had them."""
        told: list[StatusSignal] = []
        while len(told) < limit:  # a second time only if one was damaged
            room = limit - len(told)
            found = self._read("signals", (after, room))
            told += [signal for row in found if (signal := _signal_from(row)) is not None]
            if len(found) < room:
                break
            after = found[-1][0]
        return told

    def delivered(self, subscriber: str, runner: str, number: int) -> bool:
        """Move the cursor, if it is still ours to move."""
        return self._side.change(self._sql["delivered"], (number, subscriber, runner)) == 1


def signals_of(changes: Iterable[Change], bases: Mapping[str, RowView]) -> Sequence[rows.Row]:
    """What a batch has to tell, in order; the database knows whether anybody wants to hear it."""
    latest: dict[str, Execution] = {}
    signals = []
    for change in changes:
        if change.slight:
            continue
        header = change.header
        before = None if header.revision == 1 else latest.get(header.id) or bases[header.id].header
        latest[header.id] = header
        if is_news(before, header):
            signals.append(signal_row(header))
    return signals


def _signal_from(row: rows.Row) -> StatusSignal | None:
    """The signal of a row. One that is damaged cannot be told, and must not keep those after it from being told."""
    number, execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at = row
    if status not in _STATUSES or quarantine not in _REASONS:
        log.error("signal %s of execution %s is damaged and is passed over: its status is none", number, execution)
        return None
    return StatusSignal(
        number=number,
        arn=str(Arn(function, version, name, execution)),
        name=name,
        function=function,
        version=version,
        status=ExecutionStatus(status),
        started_at=started_at,
        ended_at=ended_at,
        quarantine=_REASONS[quarantine],
        quarantined_at=quarantined_at,
    )
