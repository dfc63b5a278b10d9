"""Actions on many runs at once: finds the runs on which a verb can act, and acts on each of them. A caller of one tenant reaches only the
runs of that tenant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from holdfast.console.query import Query
from holdfast.console.run_names import named
from holdfast.console.sources.viewer import READ_SECONDS, CallerSource
from holdfast.engine.restarts import check_restartable, restarted
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.life import next_try
from holdfast.model.operations import Word
from holdfast.model.shown_status import ShownStatus
from holdfast.model.starts import Restart
from holdfast.restarts.runs import RETRY, prepare, restart_in_store
from holdfast.store.browse import BrowsedRow
from holdfast.store.one_write import write_one
from holdfast.workers.run_lookup import accepted_in

MOST: Final = 10_000
"""One action acts on at most this many runs."""
EXAMPLES: Final = 10
_PAGE: Final = 200


class Verb(Word):
    """What an action on many runs does with each of them."""

    STOP = "stop"
    RETRY = "retry"
    RELEASE = "release"
    REDRIVE = "redrive"


SENTENCES: Final = {
    Verb.STOP: "Stops the runs that are open. A run of a worker or pipeline is cancelled, and may undo what it did.",
    Verb.RETRY: "Starts a new run for each run that failed or was stopped, under its name. It reuses what succeeded in the old one.",
    Verb.RELEASE: "Releases runs that are quarantined, or that wait for a later try, so that they run again.",
    Verb.REDRIVE: "Starts the parked runs again, each in its queue.",
}
_STATUSES: Final = {
    Verb.STOP: (ShownStatus.RUNNING, ShownStatus.WAITING, ShownStatus.PERSON, ShownStatus.RETRYING, ShownStatus.QUARANTINED),
    Verb.RETRY: (ShownStatus.FAILED, ShownStatus.PARTIAL, ShownStatus.STOPPED),
    Verb.RELEASE: (ShownStatus.QUARANTINED, ShownStatus.RETRYING, ShownStatus.WAITING),
    Verb.REDRIVE: (ShownStatus.FAILED,),
}


class BulkRun(msgspec.Struct, frozen=True):
    """One run on which the action will act."""

    id: str
    name: str
    function: str
    status: ShownStatus
    started_at: int


class BulkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that match a search and that a verb can act on, newest first."""

    items: tuple[BulkRun, ...]
    bounded: bool
    """Whether the search stopped early, so that more runs may match."""

    @property
    def newest(self) -> str:
        """The id of the newest run of the plan; empty if the plan has no run. The form carries it, so that `plan` can leave out newer
        runs."""
        return self.items[0].id if self.items else ""


class BulkSource(CallerSource):
    """Finds the runs that match a search, and acts on one run at a time."""

    @property
    def tenant(self) -> str | None:
        """The tenant that the caller belongs to; None if the caller sees all tenants."""
        return self._viewer.tenant

    @property
    def owner(self) -> str:
        """The name of the caller who acts."""
        return self._viewer.owner

    def likely(self, query: Query) -> Verb:
        """The verb that the page offers first: the first verb, in the order of `Verb`, that fits a status in the search. STOP if none fits,
        or if the search has no status."""
        chosen = {ShownStatus(value) for value in query.of("status")}
        return next((verb for verb in Verb if chosen.intersection(_STATUSES[verb])), Verb.STOP)

    def plan(self, query: Query, verb: Verb, newest: str = "") -> BulkPlan:
        """The runs that match the search `query` and on which `verb` can act, newest first, at most `MOST`. Runs that are newer than the
        run with the id `newest` are left out. If `newest` is empty, none are left out."""
        chosen = {ShownStatus(value) for value in query.of("status")}
        statuses = tuple(one for one in _STATUSES[verb] if not chosen or one in chosen)
        if not statuses:
            return BulkPlan(items=(), bounded=False)
        items: list[BulkRun] = []
        bounded = False
        for row in self._matches(query, statuses):
            if row is None or len(items) == MOST:
                bounded = True
                break
            if (not newest or row.header.id <= newest) and _can(verb, row.header):
                items.append(_item(row))
        return BulkPlan(items=tuple(items), bounded=bounded)

    def _matches(self, query: Query, statuses: tuple[ShownStatus, ...]) -> Iterator[BrowsedRow | None]:
        """The runs that match the search and have one of these statuses, newest first. If the search stopped before it had looked at all
        runs, None follows."""
        wanted = msgspec.structs.replace(query.browse(self._viewer.now), tenant=self._viewer.tenant, statuses=statuses, limit=_PAGE)
        while True:
            found = self._viewer.store.browse(wanted, READ_SECONDS)
            yield from found.rows
            if found.searched_to is not None:
                yield None
            if not found.more or not found.rows:
                return
            wanted = msgspec.structs.replace(wanted, beyond=found.rows[-1].header.id)

    def act(self, verb: Verb, item: BulkRun, reason: str) -> None:
        """Act on one run, and write a line with the reason to the audit log. If the action is not possible, raises the error of the action,
        and writes no such line."""
        header = self._viewer.find(item.id)
        match verb:
            case Verb.STOP:
                self._stop(header, reason)
            case Verb.RETRY:
                self._retry(header)
            case Verb.RELEASE:
                self._viewer.client.release(header.id)
            case Verb.REDRIVE:
                (done,) = self._viewer.client.queues.redrive([header])
                if done.error is not None:
                    raise done.error
            case _:
                assert_never(verb)
        self.note(verb, header.id, f"done: {reason}")

    def note(self, verb: Verb, on: str, outcome: str) -> None:
        """Write a line about a bulk action to the audit log. `on` is what the line is about: the id of a run, or the text of the search.
        Does nothing if the console does not know who acts (`Viewer.actor` is None)."""
        actor = self._viewer.actor
        if actor is not None:
            self._viewer.store.note(actor.did(f"bulk {verb.value}", on, outcome, self._viewer.now))

    def _stop(self, header: Execution, reason: str) -> None:
        if accepted_in(self._viewer.store, header) is None:
            done = self._viewer.client.stop(header.id, reason, "StoppedByOperator").stopped
        else:
            done = self._viewer.client.runs.cancel(header.id).cancelled
        if not done:
            raise InvalidParameter("The run had ended already.")

    def _retry(self, header: Execution) -> None:
        viewer = self._viewer
        if accepted_in(viewer.store, header) is not None:
            restart_in_store(viewer.store, prepare(viewer.store, header.id, viewer.caller, RETRY), viewer.caller, viewer.clock, viewer.ids)
            return
        check_restartable(header)
        payload, now = viewer.store.history(header.id, 0, 1)[0].event.payload or "null", viewer.now
        identity = viewer.ids(now)
        notes = viewer.caller.did("retry", header.id, f"as {identity}", now)
        write = restarted(header, identity, now, payload=payload, restart=Restart(header.id), notes=notes)
        write_one(viewer.store, write, now)


def _can(verb: Verb, header: Execution) -> bool:
    """Whether the verb can act on an execution. Only the header is looked at, so the action may still fail."""
    is_open = header.status is ExecutionStatus.RUNNING
    match verb:
        case Verb.STOP:
            return is_open and header.state is not State.IMPORTED
        case Verb.RETRY:
            return not is_open and header.superseded_by is None and header.continued_as is None and header.parent is None
        case Verb.RELEASE:
            return header.state is State.QUARANTINED or next_try(header) is not None
        case Verb.REDRIVE:
            return bool(header.parked) and header.superseded_by is None
        case _:
            assert_never(verb)


def _item(row: BrowsedRow) -> BulkRun:
    header = row.header
    return BulkRun(header.id, named(header), header.function, row.status, header.started_at)
