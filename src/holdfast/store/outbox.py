"""Signals of the outbox as both backends see them: the rows that a batch adds, and the signals that a reader gets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from holdfast.model.execution import Change, Execution, ExecutionStatus, Quarantine
from holdfast.model.ids import Arn
from holdfast.model.signals import StatusSignal, is_news, signal_row
from holdfast.store import rows
from holdfast.store.reads import Reads
from holdfast.store.views import RowView

log = logging.getLogger("holdfast.store")

_STATUSES: Final = frozenset(status.value for status in ExecutionStatus)
_REASONS: Final[Mapping[str | None, Quarantine | None]] = {None: None, **{reason.value: reason for reason in Quarantine}}


def signals_of(changes: Iterable[Change], bases: Mapping[str, RowView]) -> Sequence[rows.Row]:
    """The rows of a batch's signals, in order: one for each start (of an enqueued execution: its first admission), each change of a status,
    and each quarantine. `bases` has, by id, the views that the batch was decided on."""
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


class OutboxReads(Reads):
    """The part of a store that reads signals."""

    def signals(self, subscriber: str, runner: str, after: int, limit: int) -> Sequence[StatusSignal] | None:
        return self.kept_signals(after, limit) if self._read("is_holder", (subscriber, runner)) else None

    def kept_signals(self, after: int, limit: int) -> Sequence[StatusSignal]:
        """A damaged row is left out."""
        readable: list[StatusSignal] = []
        while len(readable) < limit:  # there is a second round only if a row was damaged
            room = limit - len(readable)
            found = self._read("signals", (after, room))
            readable += [signal for row in found if (signal := _signal_from(row)) is not None]
            if len(found) < room:
                break
            after = found[-1][0]
        return readable

    def _may_deliver(self, subscriber: str, runner: str) -> bool:
        """Whether the subscriber exists and no other runner delivers to it. This read comes before the write by which a runner takes the
        delivery, so that no write is made in vain."""
        holder = self._read("delivery", (subscriber,))
        return bool(holder) and holder[0][0] in (None, runner)


def _signal_from(row: rows.Row) -> StatusSignal | None:
    """The signal of a row; None for a damaged row, so that the signals after it are still delivered."""
    number, execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at = row
    if status not in _STATUSES or quarantine not in _REASONS:
        log.error("signal %s of execution %s is damaged and is left out: its status or quarantine is unknown", number, execution)
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
