"""Queues for one caller: their counts, their lanes, their parked runs, and what an operator changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.console.sources.viewer import Viewer
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.places import tenant_lane
from holdfast.model.queues import LaneState, QueueRow
from holdfast.queues.documents import setting_text, settings_document
from holdfast.queues.redrives import Redriven
from holdfast.queues.setting_names import MEMBERS, read_assignment
from holdfast.queues.store_queues import ParkedRun, QueueView

LANES: Final = 25
PARKED: Final = 25
MOST_REDRIVEN: Final = 10_000
"""At most this many parked runs are counted, or started again with one form."""
_BATCH: Final = 500
_MOST_BATCHES: Final = 200
"""At most this many batches of `_BATCH` parked runs are read for one count or one form. This is more than MOST_REDRIVEN runs, because runs
of other tenants are skipped."""


class QueueSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a queue, all as texts: `declared`, the value in code or in holdfast.toml; `operator`, the value that was set with
    `queues set` or in the console; and `counts`, the value that is in force. `declared` and `operator` are None if that value is not
    set."""

    name: str
    declared: str | None
    operator: str | None
    counts: str

    @property
    def setter(self) -> str:
        """Where the value in force comes from: `operator`, `declared`, or `default` if neither value is set."""
        return "operator" if self.operator is not None else "declared" if self.declared is not None else "default"


class LanePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lanes, in the order of their keys."""

    lanes: tuple[LaneState, ...]
    beyond: str | None
    """The key after which the next page begins; None if this is the last page."""


class ParkedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of parked runs, oldest first."""

    runs: tuple[ParkedRun, ...]
    beyond: str | None
    """The id after which the next page begins; None if this is the last page."""


class QueuesSource:
    """Reads and changes queues. A caller of one tenant sees only the lanes and the parked runs of that tenant."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._queues = viewer.client.queues

    def list(self, most: int) -> Sequence[QueueView]:
        """At most `most` queues, in the order of their names. There may be very many, because each program that enqueues a run may name a
        new queue."""
        return list(self._queues.list(tenant=self._viewer.tenant, limit=most))

    def show(self, queue: str) -> QueueView:
        """One queue, without its lanes. Raises QueueNotFound if there is no such queue."""
        return self._queues.get(queue, tenant=self._viewer.tenant, lanes=0)

    def lanes(self, queue: str, beyond: str) -> LanePage:
        """A page of lanes, after the key `beyond`; if that is empty, from the first lane on."""
        tenant = self._viewer.tenant
        prefix = "" if tenant is None else f"{tenant_lane(queue, tenant)}/"
        begin = beyond if beyond.startswith(prefix) else prefix
        found = [lane for lane in self._viewer.store.lanes(queue, begin, LANES + 1) if lane.key.startswith(prefix)]
        return LanePage(lanes=tuple(found[:LANES]), beyond=found[LANES - 1].key if len(found) > LANES else None)

    def parked(self, queue: str, beyond: str) -> ParkedPage:
        """A page of parked runs, after the id `beyond`; if that is empty, from the oldest run on."""
        found = list(self._queues.parked(queue, tenant=self._viewer.tenant, limit=PARKED + 1, beyond=beyond))
        return ParkedPage(runs=tuple(found[:PARKED]), beyond=found[PARKED - 1].header.id if len(found) > PARKED else None)

    def count_parked(self, queue: str) -> int:
        """How many parked runs of the queue the caller may see, counted up to `MOST_REDRIVEN`. Raises QueueNotFound if there is no such
        queue."""
        self.show(queue)  # raises QueueNotFound if there is no such queue
        return len(self._parked_headers(queue))

    # --- changing

    def set_mode(self, queue: str, verb: str) -> None:
        """Pause, resume or drain a queue. `verb` is `pause`, `resume` or `drain`. Raises QueueNotFound if there is no such queue."""
        {"pause": self._queues.pause, "resume": self._queues.resume, "drain": self._queues.drain}[verb](queue)

    def set(self, queue: str, said: Mapping[str, str]) -> bool:
        """Set the operator's values of a queue. `said` has them as texts, by the name of the setting. An empty text removes the operator's
        value, so that the code's value is in force. Returns False, and writes nothing, if no value would change. Raises InvalidParameter if
        a value is wrong, and QueueNotFound if there is no such queue."""
        before = {one.name: one.operator for one in settings_of(self.show(queue).row)}
        reset = [name for name, text in said.items() if not text and before.get(name) is not None]
        new = {name: text for name, text in said.items() if text and text != before.get(name)}
        given: dict[str, Any] = dict(read_assignment(f"{name}={text}") for name, text in new.items())
        if given or reset:
            self._queues.set(queue, given, reset)
        return bool(given or reset)

    def redrive(self, queue: str, run: str) -> Redriven:
        """Start one parked run of the queue again. Raises ExecutionNotFound if there is no such run, or if the caller may not see it, and
        InvalidParameter if the run is not of this queue. If the run cannot be started again, the result says why."""
        header = self._viewer.find(run)
        if header.place is None or header.place.queue != queue:
            raise InvalidParameter(f"Run {run!r:.100} is not a run of queue {queue!r:.100}.")
        (done,) = self._queues.redrive([header])
        return done

    def redrive_all(self, queue: str) -> Sequence[Redriven]:
        """Start all parked runs of the queue again that the caller may see, at most `MOST_REDRIVEN`."""
        return self._queues.redrive(self._parked_headers(queue))

    def _parked_headers(self, queue: str) -> Sequence[Execution]:
        """The headers of the parked runs of a queue that the caller may see, up to `MOST_REDRIVEN`. The errors of the runs are not read,
        because each would need one more read."""
        found: list[Execution] = []
        beyond = ""
        for _ in range(_MOST_BATCHES):
            page = self._viewer.store.parked(queue, beyond, _BATCH)
            found += filter(self._viewer.may_see, page)
            if not page or len(found) >= MOST_REDRIVEN:
                break
            beyond = page[-1].id
        return found[:MOST_REDRIVEN]


def settings_of(row: QueueRow) -> tuple[QueueSetting, ...]:
    """All settings of a queue, in the order in which people read them."""
    told = settings_document(row)
    return tuple(
        QueueSetting(
            name=name,
            declared=_said(told["declared"], name),
            operator=_said(told["operator"], name),
            counts=setting_text(told["counts"][name]),
        )
        for name in MEMBERS
    )


def _said(document: Mapping[str, Any], name: str) -> str | None:
    return setting_text(document[name]) if name in document else None
