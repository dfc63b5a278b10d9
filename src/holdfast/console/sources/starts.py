"""Starts work from the console: a run of a worker or a pipeline, through the same service as requests over HTTP, and an execution of a
function."""

from __future__ import annotations

from typing import Any

from holdfast.console.sources.viewer import CallerSource
from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.errors import ExecutionAlreadyStarted, FunctionNotFound
from holdfast.model.ids import LATEST
from holdfast.model.life import new_execution
from holdfast.model.operations import Kind
from holdfast.model.starts import Start, Started
from holdfast.store.one_write import write_one
from holdfast.workers.accept import traced


class StartSource(CallerSource):
    """Starts work for one caller. The audit log names the caller."""

    def why_not(self, name: str, kind: Kind) -> str:
        """Why this console cannot start this worker or pipeline, as a sentence; empty if it can. Always empty for a function."""
        served = self._viewer.served
        if kind is Kind.FUNCTION or (served is not None and served.contracts(name)):
            return ""
        if served is None or served.workers is None:
            return "This console has only the store, and no server beside it. Open the console of the server that serves this contract."
        return "This server does not serve this contract. Open the console of the server that serves it."

    def run(self, name: str, version: str | None, inputs: dict[str, Any], key: str | None) -> str:
        """Start a run, as a request over HTTP does: the contract checks the inputs. Returns the id of the run.

        `key` is the idempotency key, or None. If a run has this key and the same inputs already, nothing is started, and the result is the
        id of that run, unless that run ended with `retryable_error` or `invalid_request`: then a new run is started. Raises InvalidRequest
        if the request is refused, for example because a run has this key and other inputs (`idempotency_conflict`). If the inputs do not
        fit the contract, its `details` name the places.
        """
        served = self._viewer.served
        service = None if served is None else served.workers
        if served is None or service is None:
            raise InvalidRequest(self.why_not(name, Kind.WORKER), error_code="worker_not_found")
        request = traced(WorkerRequest(worker_id=name, version=version, inputs=inputs, idempotency_key=key))
        begun = served.do(lambda: service.begin(request, self._viewer.caller))
        if isinstance(begun, Response):
            error = begun.error
            assert error is not None, "a request that starts no run is refused with an error"
            refused = InvalidRequest(error.message, error_code=error.error_code)
            refused.details = error.details if isinstance(error.details, list) else []
            raise refused
        header, accepted = begun
        if accepted.trace_id == request.trace.trace_id:  # else the key has found an earlier run
            self._note(header.id, name)
        return header.id

    def function(self, name: str, payload: str, wanted: str | None) -> str:
        """Start an execution of a durable function, and return its id. This does not wait until a runner claims the execution.

        `wanted` is the name that the execution gets, or None. If there is an execution of this name already, and it was started with the
        same input, nothing is started, and the result is the id of that execution. Raises FunctionNotFound if no runner has published the
        function. Raises ExecutionAlreadyStarted if the name belongs to an execution with another input or of another tenant.
        """
        store, now = self._viewer.store, self._viewer.now
        hosted = [one for one in store.hosted(name) if one.kind is Kind.FUNCTION]
        if not hosted:
            raise FunctionNotFound(f"No runner has published a function {name!r:.100} in this store.")
        newest = next((one for one in hosted if one.version == LATEST), None) or max(hosted, key=lambda one: int(one.version))
        header = new_execution(
            self._viewer.ids(now), wanted, name, newest.version, payload=payload, now=now, terms=newest.terms, tenant=self._viewer.tenant
        )
        answer = write_one(store, Start(header, payload), now)
        assert isinstance(answer, Started)
        if not self._viewer.may_see(answer.header):
            raise ExecutionAlreadyStarted(f"Another execution has the name {wanted!r:.100}. Choose another name.")
        if self._viewer.served is not None:
            self._viewer.served.look_for_work()
        if answer.created:
            self._note(answer.header.id, name)
        return answer.header.id

    def _note(self, run: str, name: str) -> None:
        actor = self._viewer.actor
        if actor is not None:
            self._viewer.store.note(actor.did("start", run, f"of {name}", self._viewer.now))
