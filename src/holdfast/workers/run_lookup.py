"""Runs and approvals as the store has them, for a caller who may see them: states, responses, calls, open approvals.

This module reads only the store: it needs no engine, and it runs nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from holdfast.contract.codes import meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError, response_from
from holdfast.engine.quarantine_messages import waits
from holdfast.model.audit import Actor, Note
from holdfast.model.credentials import tenant_of
from holdfast.model.errors import CodecFailed, ExecutionNotFound, HoldfastError, RowDamaged
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import KIND, Event
from holdfast.model.life import next_try, reason_of
from holdfast.model.operations import OPEN, RUN, Kind, Operation
from holdfast.model.schedules import Occurrence, occurrence_in
from holdfast.store.seam import ExecutionStore, Filter, FunctionStore
from holdfast.workers.accepted_request import AcceptedRequest, accepted_from
from holdfast.workers.approvals import Approval, ApprovalNotFound, approval_document, approvals_of, code_of, run_of, waiting
from holdfast.workers.calls import Calls, Try, run_usage
from holdfast.workers.logs import log_fields
from holdfast.workers.run_operations import ATTEMPT
from holdfast.workers.run_usage import Spending

log = logging.getLogger("holdfast.workers")

_PAGE = 100
_RUNS = frozenset({Kind.WORKER, Kind.PIPELINE})
"""The kinds of functions whose executions are runs."""


class RunStore(ExecutionStore, FunctionStore, Protocol):
    """The part of a store that lists of runs need."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The caller: its tenant, its name, and what it may see. The server fills this in, from the login if there is one, and never from a
    name that the caller writes into a request."""

    tenant: str = "default"
    principal: str = "local"
    """The person, if the credential names one; else the id of the credential. Without a login, `local`, `local:USER`, or the name of the
    part of the system that asks, such as `execution:ID`."""
    credential: str | None = None
    """The id of the credential; None if the caller did not log in with one."""
    logged_in: bool = False
    """Whether the caller logged in, or opened a signed link."""
    everywhere: bool = False
    """Whether the caller belongs to no tenant, and so may see all tenants."""
    actor: Actor | None = None
    """Whom the audit log names; None if a program calls for itself: nothing is written to the audit log."""

    def did(self, what: str, on: str, outcome: str, now: int) -> tuple[Note, ...]:
        """A tuple with one note for the audit log: that the caller did `what` to `on` at the time `now`, with this `outcome`. Empty if
        `actor` is None."""
        return () if self.actor is None else self.actor.did(what, on, outcome, now)

    def may_see(self, header: Execution) -> bool:
        """Whether the caller may see this execution: the caller belongs to its tenant or to no tenant, or did not log in (on a server
        without logins)."""
        return not self.logged_in or self.everywhere or tenant_of(header.tenant) == self.tenant


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its accepted request, its state, its response so far, and its calls."""

    header: Execution
    accepted: AcceptedRequest
    state: str
    """queued, running, waiting or done (`state_of`)."""
    response: Response
    calls: tuple[Try, ...] = ()
    """Every try of every call that the run itself has made; always empty in lists."""
    occurrence: Occurrence | None = None
    """The occurrence of a schedule that started the run; None for other runs, and in lists."""


# --- one run


def find_run(store: ExecutionStore, run_id: str, caller: Caller) -> tuple[Execution, AcceptedRequest]:
    """A run that the caller may see, and its accepted request. Raises ExecutionNotFound if there is none."""
    header = store.find(run_id)
    if header is not None and caller.may_see(header):
        accepted = accepted_in(store, header)
        if accepted is not None:
            return header, accepted
    raise ExecutionNotFound(f"There is no run {run_id!r:.100}.")


def accepted_in(store: ExecutionStore, header: Execution) -> AcceptedRequest | None:
    """The accepted request of an execution; None if its input is not an accepted request, or if the worker service did not start the
    execution, whatever its input looks like.

    Runs from before the store marked runs are recognised by their input alone.
    """
    first = _first_event_of_run(store, header)
    if first is not None:
        with contextlib.suppress(msgspec.DecodeError):
            return accepted_from(first.payload)
    return None


def is_run(store: ExecutionStore, header: Execution) -> bool:
    """Whether the worker service started this execution. Always true for an execution from before the store marked runs, so the caller must
    know that its input is an accepted request."""
    return _first_event_of_run(store, header) is not None


def _first_event_of_run(store: ExecutionStore, header: Execution) -> Event | None:
    """The first event of an execution that is marked as a run, or that is older than these marks; None for any other execution."""
    for line in store.history(header.id, 0, 1):
        if (line.event.detail or {}).get(KIND) in _RUNS or header.id <= store.unmarked:
            return line.event
    return None


def response_of(store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> Response:
    """The response of a run. If the run has not ended, or ended without writing a response, this makes a response that says why there is
    none."""
    if header.status is ExecutionStatus.SUCCEEDED:
        return response_from(store.result(header) or "{}")
    approvals = open_approvals(store, header)
    code, message = _code_without_response(header)
    if approvals:
        approvals = list(map(Spending(store).with_spent, approvals))
        code, first = code_of(approvals), approvals[0]
        message = f"A person must decide: {first.approval_id} {first.question if first.kind == 'question' else first.tool}."
    meaning = meaning_of(code)
    return Response(
        run_id=header.id,
        worker_id=header.function,
        version=accepted.version,
        status=meaning.status,
        error=ResponseError(error_code=code, message=message, retryable=meaning.retryable),
        approvals=tuple(map(approval_document, approvals)),
        observability=_observability(store, header, accepted, meaning.status.value, code),
    )


def _observability(store: ExecutionStore, header: Execution, accepted: AcceptedRequest, status: str, code: str) -> Observability:
    """The observability part of the response of a run that has no response of its own, from its operations."""
    operations = store.operations(header.id)
    calls = Calls(accepted.limits)
    calls.read(operations)
    # An attempt is recorded together with its first effect. So a run that a runner has claimed is in its first attempt, even if none is
    # recorded.
    attempt = max(sum(op.sub_type == ATTEMPT for op in operations), int(header.epoch > 0))
    took = (header.ended_at or header.touched_at) - header.started_at
    known: dict[str, Any] = {"worker_id": header.function, "version": accepted.version, "run_id": header.id, "tenant": accepted.tenant}
    known |= {"attempt": attempt, "duration_ms": took, "status": status, "error_code": code, "tool_calls": calls.count}
    known |= {"trace_id": accepted.trace_id, "span_id": accepted.span_id}
    return Observability(
        trace_id=accepted.trace_id,
        span_id=accepted.span_id,
        attempt=attempt,
        duration_ms=took,
        usage=run_usage(calls.usage, calls.count),
        log_fields=log_fields(accepted.log_fields, known),
    )


def state_of(header: Execution) -> str:
    """The state of a run as callers see it: queued, running, waiting or done. A run that the engine will try again later, because its
    runners died, is `waiting`; a quarantined run, which a person must release, is `done`."""
    if next_try(header) is not None:
        return "waiting"
    if header.status is not ExecutionStatus.RUNNING or header.state is State.QUARANTINED:
        return "done"
    if header.state is State.SUSPENDED:
        return "waiting"
    if header.state in (State.QUEUED, State.DELAYED):
        return "queued"
    return "running" if header.invocation is not None or header.epoch else "queued"


def _code_without_response(header: Execution) -> tuple[str, str]:
    """The error code and the message for a run that has no response of its own."""
    if header.state is State.QUARANTINED:
        return "worker_crashed", f"The run is quarantined ({reason_of(header)}); it waits until an operator releases it."
    if (aside := waits(header)) is not None:
        return "overloaded", f"The run is not over yet. {aside}"
    if header.status is ExecutionStatus.TIMED_OUT:
        return "timeout", "The run took longer than run_timeout_seconds."
    if header.status is ExecutionStatus.STOPPED:
        return "cancelled", "The run was cancelled."
    if header.status is ExecutionStatus.FAILED:
        return "worker_crashed", "The run failed inside the runtime; its execution's history says why."
    return "overloaded", "The run is not over yet."


def calls_of(store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> tuple[Try, ...]:
    """Every try of every call that a run itself has made. Calls that it inherited from earlier runs are left out."""
    calls = Calls(accepted.limits)
    calls.read(store.operations(header.id))
    return tuple(one for one in calls.tries if not one.inherited)


def open_child(store: ExecutionStore, parent: str, operation_id: str) -> str | None:
    """The id of the child run under way that an operation of a run waits for; None if there is none."""
    return next((child.id for child in running_below(store, parent) if child.parent_operation == operation_id), None)


# --- runs for people


def run_view(store: ExecutionStore, run_id: str, caller: Caller) -> RunView:
    """A run with its calls and its occurrence. Raises ExecutionNotFound if the caller can see no such run."""
    header, accepted = find_run(store, run_id, caller)
    occurrence = next((occurrence_in(line.event.detail) for line in store.history(header.id, 0, 1)), None)
    return msgspec.structs.replace(_run_view(store, header, accepted), calls=calls_of(store, header, accepted), occurrence=occurrence)


def run_views(
    store: RunStore, caller: Caller, *, worker: str | None = None, limit: int, parent: str | None = None, queue: str | None = None
) -> Iterator[RunView]:
    """At most `limit` runs that the caller may see, newest first, without their calls. With `worker` or `queue`, only runs of this worker
    or queue. Runs that cannot be read are logged and left out.

    With `parent`, only the runs that the nodes of the pipeline's run `parent` asked for, items of maps included; the items of one shard
    stand together. If neither `parent` nor `worker` is given, runs that a pipeline asked for are left out.
    """
    beyond: str | None = None
    workers: set[str] = set()
    others: set[str] = set()
    while limit > 0 and (page := store.list(Filter(function=worker, parent=parent, queue=queue, beyond=beyond, limit=_PAGE))):
        for header in page:
            if header.function in others or limit <= 0:
                continue
            try:
                found, accepted = find_run(store, header.id, caller)
            except ExecutionNotFound:
                if caller.may_see(header) and header.function not in workers and not _is_worker(store, header.function):
                    others.add(header.function)  # a durable function of that name: none of its executions is a run
                continue
            except (RowDamaged, CodecFailed) as unreadable:
                _log_left_out(header, unreadable)
                continue
            workers.add(header.function)
            if accepted.is_shard:
                if parent is not None:
                    for run_view in run_views(store, caller, worker=worker, limit=limit, parent=header.id, queue=queue):
                        limit -= 1
                        yield run_view
                continue
            if parent is None and worker is None and accepted.labels.pipeline is not None:
                continue
            try:
                run_view = _run_view(store, found, accepted)
            except (RowDamaged, CodecFailed) as unreadable:
                _log_left_out(header, unreadable)
                continue
            limit -= 1
            yield run_view
        beyond = page[-1].id


def _run_view(store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> RunView:
    return RunView(header=header, accepted=accepted, state=state_of(header), response=response_of(store, header, accepted))


def _log_left_out(header: Execution, unreadable: HoldfastError) -> None:
    log.error("run %s is left out of lists: %s", header.id, unreadable)


def _is_worker(store: FunctionStore, function: str) -> bool:
    """Whether the store knows `function` as the name of a worker or a pipeline. If not, `run_views` takes no execution of that name for a
    run."""
    return any(hosted.kind in _RUNS for hosted in store.hosted(function))


# --- approvals


def open_approvals(store: ExecutionStore, header: Execution) -> list[Approval]:
    """The open approvals of a run: first its own, then those of all runs below it; empty if the run has ended. The search ends when at
    least a hundred are found, and looks at no more than a hundred child runs of each run, so some may be missing."""
    found: list[Approval] = []
    below = [header]
    while below and len(found) < _PAGE:
        one = below.pop(0)
        if one.status is ExecutionStatus.RUNNING:
            operations = store.operations(one.id)
            found += waiting(one, operations)
            if any(operation.sub_type == RUN and operation.status in OPEN for operation in operations):
                below += store.list(Filter(parent=one.id, statuses=(ExecutionStatus.RUNNING,), oldest_first=True, limit=_PAGE))
    return found


def waiting_below(store: ExecutionStore, run_id: str, caller: Caller, node: str | None = None) -> Iterator[Approval]:
    """All open approvals of a run and of all runs below it; those of the runs nearest to the run come first, and each run is read when the
    first of its approvals is asked for. With `node`, only those that a node of this name asks for, or that runs below such a node ask for,
    such as the items of a map. Raises ExecutionNotFound if the caller can see no such run."""
    header, _ = find_run(store, run_id, caller)
    return _waiting_below(store, header, node)


def _waiting_below(store: ExecutionStore, run: Execution, node: str | None) -> Iterator[Approval]:
    below = deque([run])
    while below:
        one = below.popleft()
        is_wanted = node is None or one.id != run.id  # below the run, only runs of the node are looked at
        operations = store.operations(one.id)
        yield from (approval for approval in waiting(one, operations) if is_wanted or approval.node == node)
        if any(operation.sub_type == RUN and operation.status in OPEN for operation in operations):
            names = {operation.id: operation.name for operation in operations}
            below += [child for child in running_below(store, one.id) if is_wanted or names.get(child.parent_operation or "") == node]


def running_below(store: ExecutionStore, parent: str) -> Iterator[Execution]:
    """The runs under way that the run `parent` itself asked for, oldest first. Runs that those asked for are not among them."""
    beyond: str | None = None
    wanted = Filter(parent=parent, statuses=(ExecutionStatus.RUNNING,), oldest_first=True, limit=_PAGE)
    while page := store.list(msgspec.structs.replace(wanted, beyond=beyond)):
        yield from page
        beyond = page[-1].id


def find_approval(store: ExecutionStore, approval_id: str, caller: Caller, *, spent: bool = True) -> Approval:
    """One approval, open or closed. With `spent`, it also says how much its run has spent so far, and how much each execution above that
    run. Raises ApprovalNotFound if the caller can see no such approval."""
    found = approval_operations(store, approval_id, caller)[0]
    return Spending(store).with_spent(found) if spent else found


def approval_operations(store: ExecutionStore, approval_id: str, caller: Caller) -> tuple[Approval, Operation, Operation]:
    """One approval with the operations of its callback and of its request. Raises ApprovalNotFound if the caller can see no such
    approval."""
    with contextlib.suppress(ExecutionNotFound):
        header, _ = find_run(store, run_of(approval_id), caller)
        for found in approvals_of(header, store.operations(header.id)):
            if found[0].approval_id == approval_id:
                return found
    raise ApprovalNotFound(f"There is no approval {approval_id!r:.100}.")
