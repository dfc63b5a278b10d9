"""The events of a run for a program that blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.model.execution import Execution
from holdfast.store.seam import Store
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.event_rings import Position, position_of
from holdfast.workers.events import RunEvent
from holdfast.workers.followed_runs import FollowedRuns


def followed(store: Store, header: Execution, accepted: AcceptedRequest, after: int | str = 0) -> Iterator[RunEvent]:
    """The events of a run after an id, then new ones as they happen, until the run is over."""
    events = FollowedRuns().follow(store, header, accepted, Position(position_of(after).recorded))

    async def later() -> RunEvent | bool:
        """The next event; True when nothing happened for a while, False at the end."""
        async for event in events:
            return True if event is None else event
        return False

    with asyncio.Runner() as runner:
        while (told := runner.run(later())) is not False:
            if not isinstance(told, bool) and told.event != "gap":  # this process gets no live events
                yield told
