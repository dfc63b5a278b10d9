"""The recorded events of a run, for blocking callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.model.execution import Execution
from holdfast.store.seam import ExecutionStore
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.event_rings import FollowerPosition, position_of
from holdfast.workers.events import RunEvent
from holdfast.workers.followed_runs import FollowedRuns


def followed(store: ExecutionStore, header: Execution, accepted: AcceptedRequest, after: int | str = 0) -> Iterator[RunEvent]:
    """The recorded events of a run after the event with the id `after`, and then each new event when it is recorded; between events the
    iterator blocks. It ends when the run has ended. It also ends when the run is quarantined or removed from the store; in both cases the
    last event is `quarantined`. Live events, such as progress and log lines, are not among them."""
    events = FollowedRuns().follow(store, header, accepted, FollowerPosition(position_of(after).recorded))

    async def later() -> RunEvent | bool:
        """The next event. True if no event was recorded for a while, but more may come; False if there are no more events."""
        async for event in events:
            return True if event is None else event
        return False

    with asyncio.Runner() as runner:
        while (told := runner.run(later())) is not False:
            if not isinstance(told, bool) and told.event != "gap":  # this process gets no live events
                yield told
