"""Subscribers of signals, and the signals that the store has not removed yet. Both concern all tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.console.sources.viewer import CallerSource
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import ExecutionStatus
from holdfast.model.ids import Arn
from holdfast.model.shown_status import ShownStatus
from holdfast.model.signals import StatusSignal
from holdfast.store.browse import SubscriberPosition

PAGE: Final = 50


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that a sink could not deliver and has given up."""

    sink: str
    number: int
    tries: int
    at: int | None
    error: str
    name: str
    """The name of the execution that the signal is about."""
    arn: str


class SignalLine(msgspec.Struct, frozen=True, kw_only=True):
    """A signal, and how the run ended that it is about."""

    signal: StatusSignal
    ended: ShownStatus | None = None
    """For the signal of an execution that succeeded: its status as the list of runs shows it, because the response of its run may be an
    error. None for any other signal, and if the store has removed the execution."""
    error_code: str = ""
    """The error code of that response; empty if it has none."""


class SignalsView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of signals shows."""

    subscribers: tuple[SubscriberPosition, ...]
    signals: tuple[SignalLine, ...]
    """The signals of this page, newest first."""
    letters: tuple[DeadLetter, ...] = ()
    """The newest dead letters of this server's sinks, the newest first."""
    before: int | None
    """The next page has the signals whose numbers are below this one. None if the store has no signal older than those of this page."""


class SignalsSource(CallerSource):
    """Reads subscribers and signals."""

    def page(self, before: int | None) -> SignalsView:
        """The subscribers, the dead letters, and one page of signals: the newest of those whose number is below `before`, or the newest of
        all if `before` is None."""
        store = self._viewer.store
        found = tuple(store.subscribers())
        newest = max((one.newest for one in found), default=0)
        top = newest if before is None else before - 1
        after = max(0, top - PAGE)
        kept = [signal for signal in store.kept_signals(after, PAGE) if signal.number <= top] if top > 0 else []
        oldest = next(iter(store.kept_signals(0, 1)), None)
        more = after + 1 if oldest is not None and oldest.number <= after else None
        return SignalsView(subscribers=found, signals=tuple(map(self._line, reversed(kept))), letters=self._letters(), before=more)

    def _line(self, signal: StatusSignal) -> SignalLine:
        if signal.status is not ExecutionStatus.SUCCEEDED:
            return SignalLine(signal=signal)
        try:
            header = self._viewer.store.find(Arn.parse(signal.arn).id)
        except HoldfastError:  # a row that cannot be read must not hide the other signals
            header = None
        if header is None:
            return SignalLine(signal=signal)
        code = None if header.summary is None else header.summary.error_code
        return SignalLine(signal=signal, ended=self._viewer.status(header), error_code=code or "")

    def _letters(self) -> tuple[DeadLetter, ...]:
        served = self._viewer.served
        kept = {} if served is None else served.dead_letters(PAGE)
        found = [_letter(sink, one) for sink, letters in kept.items() for one in letters]
        return tuple(sorted(found, key=lambda one: one.at or 0, reverse=True)[:PAGE])


def _letter(sink: str, kept: Mapping[str, Any]) -> DeadLetter:
    """The dead letter in one line of a sink's file. A person may have changed the file, so a field of the line may have any type."""

    def number(value: object) -> int:
        return value if isinstance(value, int) else 0

    event = kept.get("event")
    detail = event.get("detail") if isinstance(event, dict) else None
    told = detail if isinstance(detail, dict) else {}
    return DeadLetter(
        sink=sink,
        number=number(kept.get("number")),
        tries=number(kept.get("tries")),
        at=number(kept.get("at")) or None,
        error=str(kept.get("error", ""))[:1000],
        name=str(told.get("durableExecutionName", ""))[:200],
        arn=str(told.get("durableExecutionArn", ""))[:500],
    )
