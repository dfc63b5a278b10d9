"""How runs stand, for people who look: their orders, what they came to, and every call they made. Needs no engine, and runs nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from holdfast.contract.protocol import Response
from holdfast.model.errors import CodecFailed, ExecutionNotFound, HoldfastError, RowDamaged
from holdfast.model.execution import Execution
from holdfast.model.operations import Kind
from holdfast.store.seam import Filter, Store
from holdfast.workers.calls import Calls, Try
from holdfast.workers.gateway import EFFECTS_AT
from holdfast.workers.looking import Asker, find_run, response_of, state_of
from holdfast.workers.running import Accepted

log = logging.getLogger("holdfast.workers")

_PAGE = 100


class RunStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    header: Execution
    accepted: Accepted
    state: str
    """queued, running, waiting or done."""
    response: Response
    calls: tuple[Try, ...] = ()


def standing_of(store: Store, run_id: str, asker: Asker) -> RunStanding:
    """A run with its calls."""
    header, accepted = find_run(store, run_id, asker)
    return msgspec.structs.replace(_standing(store, header, accepted), calls=calls_of(store, header, accepted))


def standings(store: Store, asker: Asker, *, worker: str | None = None, limit: int) -> Iterator[RunStanding]:
    """Runs, newest first, without their calls. Other executions are passed over."""
    beyond: str | None = None
    workers: set[str] = set()
    others: set[str] = set()
    while limit > 0 and (page := store.list(Filter(function=worker, beyond=beyond, limit=_PAGE))):
        for header in page:
            if header.function in others or limit <= 0:
                continue
            try:
                found, accepted = find_run(store, header.id, asker)
            except ExecutionNotFound:
                if asker.may_see(header) and header.function not in workers and not _is_worker(store, header.function):
                    others.add(header.function)  # a durable function of that name: none of its executions is a run
                continue
            except (RowDamaged, CodecFailed) as unreadable:
                _tell(header, unreadable)
                continue
            workers.add(header.function)
            try:
                standing = _standing(store, found, accepted)
            except (RowDamaged, CodecFailed) as unreadable:
                _tell(header, unreadable)
                continue
            limit -= 1
            yield standing
        beyond = page[-1].id


def _tell(header: Execution, unreadable: HoldfastError) -> None:
    """A run that cannot be read is left out, and the others are listed."""
    log.error("run %s is left out of lists: %s", header.id, unreadable)


def _is_worker(store: Store, function: str) -> bool:
    """Whether a worker of that name was ever served: then some of its executions may be runs, whatever the others are."""
    return any(hosted.kind is Kind.WORKER for hosted in store.hosted(function))


def calls_of(store: Store, header: Execution, accepted: Accepted) -> tuple[Try, ...]:
    """Every call that a run has made."""
    ledger = Calls(accepted.limits, EFFECTS_AT)
    ledger.read(store.operations(header.id))
    return tuple(ledger.tries)


def _standing(store: Store, header: Execution, accepted: Accepted) -> RunStanding:
    return RunStanding(header=header, accepted=accepted, state=state_of(store, header), response=response_of(store, header, accepted))
