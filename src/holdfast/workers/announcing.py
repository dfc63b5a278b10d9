"""The eyes on all runs of a process, and the one moment that counts: a run's end is on disk, and this process wrote it."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

from holdfast.contract.codes import CODES, meaning_of
from holdfast.contract.protocol import Trace, WorkerRequest, response_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.engine.engine import Engine
from holdfast.model.clock import Clock
from holdfast.model.errors import ExecutionNotFound, LimitReached
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.signals.observing import NOBODY, Observer, Observers, Refusal, RunSeen
from holdfast.workers.events import RunEvents
from holdfast.workers.looking import Asker, find_run, response_of
from holdfast.workers.observing import OpenEye, end_of
from holdfast.workers.running import Accepted

_MOST_EYES: Final = 10_000
_MOST_ENDED: Final = 1_000
_ANYBODY: Final = Asker()


class Eyes:
    """Looks at every run that this process has."""

    def __init__(self, observer: Observer, events: RunEvents) -> None:
        self._observer = NOBODY if observer is NOBODY else Observers([observer])
        self._events = events
        self._eyes: OrderedDict[str, OpenEye] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def observe(self, observer: Observer) -> None:
        """One more who looks on, at the runs that begin from now on."""
        self._observer = Observers([observer] if self._observer is NOBODY else [self._observer, observer])

    def attach(self, engine: Engine) -> None:
        """Hear of the ends that this engine writes."""
        self._engine = engine
        engine.endings.heard = self._heard

    def on(self, header: Execution, accepted: Accepted, contract: Contract, clock: Clock) -> OpenEye:
        """The eye on a run; the same one as long as this process remembers."""
        found = self._eyes.get(header.id)
        if found is None:
            seen = seen_of(header, accepted)
            found = OpenEye(seen, self._observer, self._events, clock, contract, accepted.request.inputs)
            if self._observer is not NOBODY:
                self._eyes[header.id] = found
                if len(self._eyes) > _MOST_EYES:  # runs that others ended
                    self._eyes.popitem(last=False)
        return found

    def refused(
        self,
        request: WorkerRequest,
        asker: Asker,
        error: InvalidRequest | LimitReached,
        began_at: int,
        *,
        known: bool,
        sampled: bool | None,
    ) -> None:
        """A request made no run."""
        if self._observer is NOBODY:
            return
        code = error.error_code if isinstance(error, InvalidRequest) else "rate_limited"
        trace = {
            "trace_id": request.trace.trace_id,
            "span_id": secrets.token_hex(8),
            "parent_span_id": _caller(request.trace),
            "upstream_request_id": request.trace.upstream_request_id,
        }
        self._observer.refused(
            Refusal(
                worker_id=request.worker_id,
                known=known,
                version=request.version or "",
                tenant=asker.tenant,
                status=meaning_of(code).status.value,
                error_code=code,
                message=str(error),
                at=self._engine.clock.now(),
                began_at=began_at,
                trace=trace,
                sampled=sampled,
            )
        )

    def _heard(self, header: Execution, payload: str | None) -> None:
        """An execution is over, and the end is this engine's."""
        self._events.nudge(header.id)
        if self._observer is NOBODY or header.state is not State.CLOSED or header.id in self._ended:
            return
        eye = self._eyes.pop(header.id, None)
        self._ended[header.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        store = self._engine.store
        ended_at = header.ended_at or self._engine.clock.now()
        if eye is not None and header.status is ExecutionStatus.SUCCEEDED and payload is not None:
            eye.ended(response_from(payload), ended_at)
            return
        try:
            _, accepted = find_run(store, header.id, _ANYBODY)
        except ExecutionNotFound:
            return  # some other execution
        response = response_of(store, header, accepted)
        if eye is not None:
            eye.ended(response, ended_at)
            return
        code = None if response.error is None else response.error.error_code
        label = code if code is None or code in CODES else "other"
        self._observer.ended(seen_of(header, accepted), end_of(response, label, None, ended_at))


def seen_of(header: Execution, accepted: Accepted) -> RunSeen:
    """A run, as signals name it."""
    return RunSeen(
        run_id=header.id,
        worker_id=accepted.request.worker_id,
        version=accepted.version,
        tenant=accepted.tenant,
        trace_id=accepted.trace_id,
        span_id=accepted.span_id,
        parent_span_id=_caller(accepted.request.trace),
        upstream_request_id=accepted.request.trace.upstream_request_id,
        sampled=accepted.sampled,
        started_at=header.started_at,
    )


def _caller(trace: Trace) -> str | None:
    """The span that a request comes from: the caller's own, else the one he names as its parent."""
    return trace.span_id or trace.parent_span_id
