"""Subscribers of signals, and the signals that the store still keeps. Both concern all tenants."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.model.signals import StatusSignal
from holdfast.store.browsing import SubscriberStanding

PAGE: Final = 50


class SignalsView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of signals shows."""

    subscribers: tuple[SubscriberStanding, ...]
    signals: tuple[StatusSignal, ...]
    """Newest first."""
    before: int | None
    """The number below which the next page begins; None if the store keeps no older signal."""


class SignalsSource:
    """Reads subscribers and signals."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def page(self, before: int | None) -> SignalsView:
        """Subscribers, and the signals with numbers below `before`; without it, the newest."""
        store = self._viewer.store
        found = tuple(store.subscribers())
        newest = max((one.newest for one in found), default=0)
        top = newest if before is None else before - 1
        after = max(0, top - PAGE)
        kept = [signal for signal in store.kept_signals(after, PAGE) if signal.number <= top] if top > 0 else []
        oldest = next(iter(store.kept_signals(0, 1)), None)
        more = after + 1 if oldest is not None and oldest.number <= after else None
        return SignalsView(subscribers=found, signals=tuple(reversed(kept)), before=more)
