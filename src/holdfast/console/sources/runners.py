"""The runners of a store, and the functions that were published in it. Both concern all tenants."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.console.sources.viewer import CallerSource
from holdfast.store.browse import RunnerStatus
from holdfast.store.values import Hosted


class RunnersView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of runners shows."""

    runners: tuple[RunnerStatus, ...]
    hosted: tuple[Hosted, ...]
    newest_code: int | None
    """The highest schema number that the code of a registered runner knows. None if no runner is registered, or if all of them run code
    of the oldest schema, which does not tell it."""


class RunnersSource(CallerSource):
    """Reads the runners."""

    def all(self) -> RunnersView:
        """All registered runners, also those that sent no heartbeat in time; and at most 10,000 of the functions, workers and pipelines
        that runners have published."""
        runners: Sequence[RunnerStatus] = self._viewer.store.runners()
        codes = [one.code for one in runners if one.code is not None]
        return RunnersView(runners=tuple(runners), hosted=tuple(self._viewer.store.all_hosted()), newest_code=max(codes, default=None))
