"""What must hold for queues at every moment: slots are counted rightly, no level is over its limit, no rate over its bound; and at the end
every execution that was enqueued is there once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from holdfast.model import codec
from holdfast.model.admission import holds, waits
from holdfast.model.execution import Execution
from holdfast.model.operations import ENQUEUE, Status
from holdfast.model.places import path
from holdfast.store.seam import Filter, Store
from tests.simulation.queue_load import QUEUES


class QueueLaws:
    """Looks at the lanes after every commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, int] = {}

    def check(self) -> None:
        """Raise an AssertionError for the first law that is broken now."""
        for queue in QUEUES:
            lanes = self._store.lanes(queue, limit=1000)
            if not lanes:
                continue
            held: Counter[str] = Counter()
            waiting: Counter[str] = Counter()
            for header in self._store.list(Filter(queue=queue, limit=10_000)):
                assert header.place is not None
                for key in path(header.place.lane):
                    held[key] += holds(header)
                    waiting[key] += waits(header)
            for lane in lanes:
                assert lane.held == held[lane.key], f"{lane.key} counts {lane.held} slots, and {held[lane.key]} are held"
                assert lane.waiting == waiting[lane.key], f"{lane.key} counts {lane.waiting} that wait, and {waiting[lane.key]} do"
                risen = lane.held > self._held.get(lane.key, 0)  # a limit may be set below what is held already
                over = lane.at_once is not None and lane.held > lane.at_once
                assert not (over and risen), f"{lane.key} holds {lane.held} slots, and {lane.at_once} are allowed at once"
                self._held[lane.key] = lane.held


def check_enqueued(store: Store, executions: Sequence[Execution]) -> None:
    """Every step that enqueued has made one execution, and no execution was enqueued without a caller."""
    made: dict[str, list[str]] = defaultdict(list)
    for header in executions:
        for operation in store.operations(header.id):
            if operation.sub_type == ENQUEUE and operation.status is Status.SUCCEEDED:
                made[codec.loads(operation.result or '""')].append(header.name)
    known = {header.id for header in executions}
    for execution, by in made.items():
        assert execution in known, f"{by} enqueued {execution}, which is not there"
        assert len(by) == 1, f"{execution} was enqueued by {by}"
    for header in executions:
        heir = header.place is not None and header.place.admitted_at is not None and header.place.admitted_at < header.started_at
        if header.place is not None and header.name == header.id and not heir:
            assert header.id in made, f"{header.id} was enqueued by no execution"


def check_rates(store: Store, executions: Sequence[Execution]) -> None:
    """In any span a rate of a queue admits at most its burst and what comes with time."""
    for queue in QUEUES:
        row = store.queue(queue)
        for rate in () if row is None else row.settings().limits.parsed_rates():
            places = [header.place for header in executions if header.place is not None and header.place.queue == queue]
            times = sorted(place.admitted_at for place in places if place.admitted_at is not None)
            for first in range(len(times)):
                for last in range(first, len(times)):
                    most = rate.burst + (times[last] - times[first] + 1) * 1_000_000 // rate.step_ns
                    count = last - first + 1
                    assert count <= most, f"{queue} admitted {count} in {times[last] - times[first]} ms, and {rate} allows {most}"
