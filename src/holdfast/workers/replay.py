"""Replays: run the body of a finished run again, with the receipts of that run. The store is not changed, and no tool outside the sandbox
is called. If the body makes a call that the run did not make, or made with other arguments, the call is refused, this attempt of the replay
ends, and the replay reports the difference. The result of each attempt is compared with the recorded one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from holdfast.contract.protocol import ArtifactRef, Response
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal
from holdfast.model import json_structs
from holdfast.model.charges import Charge
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import Operation, Type, Update
from holdfast.store.seam import ExecutionStore
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import ApprovalPlace, arguments_hash
from holdfast.workers.artifacts import ArtifactMissing, Artifacts, brought_in
from holdfast.workers.attempt import Attempt, AttemptResult
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import CallAnswer, Calls, Intent, Try
from holdfast.workers.frames import BodyError, ToolAsked, order_of
from holdfast.workers.gateway import Gateway
from holdfast.workers.outputs import checked_outputs
from holdfast.workers.policy import Policy
from holdfast.workers.run import Worker
from holdfast.workers.run_lookup import Caller, find_run, response_of
from holdfast.workers.run_operations import ATTEMPT, attempt_at
from holdfast.workers.run_reporters import SILENT
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Effect, Tool, ToolFailed
from holdfast.workers.value_changes import SHOWN, brief, changes

_FROM_OUTSIDE = frozenset({"timeout", "idle_timeout", "cancelled", "overloaded", "sandbox_unavailable"})
"""Error codes that the worker's code does not cause. If an attempt of the run ended with one of these codes, the end of this attempt and
its missing calls are not compared; the replay reports a note instead."""
_OF_LIMITS = frozenset({"rate_limited", "budget_exceeded"})
"""Error codes of calls that were refused, and so have no receipt, by a limit that a replay does not know: a daily cap, a cool-down key, a
budget that the run shared."""
_MOST_PATHS = 20


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, with its operations."""

    header: Execution
    accepted: AcceptedRequest
    response: Response
    operations: Sequence[Operation]
    before: Sequence[Operation] = ()
    """The operations of the earlier runs whose receipts it inherited."""


def finished_in(store: ExecutionStore, run_id: str, caller: Caller) -> Finished:
    """A run that has ended, read from a store. Raises InvalidParameter if the run has not ended, and ExecutionNotFound if the caller can
    see no such run."""
    header, accepted = find_run(store, run_id, caller)
    if header.status is ExecutionStatus.RUNNING:
        raise InvalidParameter(f"The run {run_id} has not ended yet. Only a run that has ended can be replayed.")
    return Finished(
        header=header,
        accepted=accepted,
        response=response_of(store, header, accepted),
        operations=store.operations(header.id),
        before=[operation for earlier in accepted.before for operation in store.operations(earlier)],
    )


class ReplayDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the replay and the run."""

    attempt: int
    kind: str
    """`new_call`: a call for which the run has no receipt. `other_arguments`: a call that the run made with other arguments. `new_record`:
    a step or a question that the run did not have. `missing_call`: a call of the run that the replay does not make. `outcome`: the attempt
    ended with another error code, or with an error instead of a success (or the reverse). `outputs`: other outputs."""
    message: str


class RunReplay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    run_id: str
    worker_id: str
    package: str
    """The package whose code was run now."""
    attempts: int
    receipts: int
    """The number of calls of the run that the body also asked for in the replay, in all attempts together."""
    differences: tuple[ReplayDifference, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be compared, and why. Each text names its attempt."""

    @property
    def matches(self) -> bool:
        """Whether the replay found no difference. What could not be compared (`notes`) is no difference."""
        return not self.differences


async def replay(finished: Finished, worker: Worker, package: str, artifacts: Artifacts, policy: Policy) -> RunReplay:
    """Run every attempt of a finished run again with the code of `worker`, whose package is `package`, and compare each attempt with the
    recorded one."""
    whole = Calls(finished.accepted.limits)
    whole.read(finished.before, inherited=True)
    whole.read(finished.operations)
    last = max(finished.response.observability.attempt, sum(op.sub_type == ATTEMPT for op in finished.operations), 1)
    differences: list[ReplayDifference] = []
    notes: list[str] = []
    receipts = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        overlay = _Overlay(artifacts, Path(folder), policy.artifact_bytes)
        for number in range(1, last + 1):
            again = _Again(finished, worker, overlay, policy, whole, number)
            differences += await again.run()
            notes += again.notes
            receipts += again.receipts
    return RunReplay(
        run_id=finished.header.id,
        worker_id=finished.header.function,
        package=package,
        attempts=last,
        receipts=receipts,
        differences=tuple(differences),
        notes=tuple(notes),
    )


class _Departed(Exception):
    """The body asks for something that the run did not do."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _RecordsEnd(Exception):
    """The records of the run end here, because its attempt was interrupted here. What the body does after this cannot be compared."""


class _Records(Journal):
    """The operations of a run, read only."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._found = {operation.id: operation for operation in operations}

    @property
    def operations(self) -> Sequence[Operation]:
        return list(self._found.values())

    def find(self, at: Identity) -> Operation | None:
        return self._found.get(at.operation_id)

    async def write(self, *updates: Update, charges: tuple[Charge, ...] = (), ledger: tuple[LedgerEntry, ...] = ()) -> None:
        self._refuse(updates[-1])

    def write_later(self, update: Update) -> None:
        self._refuse(update)

    write_first = write_later

    def when_closed(self, at: Identity, tell: Callable[[], None] | None) -> None:
        """Do nothing, because nothing is closed during a replay."""

    def _refuse(self, update: Update) -> NoReturn:
        what = f"{update.sub_type or update.type.value} {update.name!r}"
        if update.id in self._found:
            raise _RecordsEnd(f"{what} had begun, and not ended, when the attempt ended")
        raise _Departed("new_record", f"{what} is new: the run has no record of it")


class _Receipts(Gateway):
    """Answers calls with their receipts, and makes no call."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked_for: set[str] = set()
        self.refusal: BodyError | None = None
        """The error of the attempt, if a limit that a replay does not know may have caused it by refusing a call."""
        self.notes: list[str] = []
        """A text about each call that was answered with `refusal`."""

    async def _served(self, tool: Tool, asked: ToolAsked, identity: str) -> CallAnswer:
        hashed = arguments_hash(asked.arguments)
        known = self.calls.compared(identity, hashed)
        if known is not None:
            self.asked_for.add(identity)
            if hashed not in (known.intent.asked_sha256, *known.kept):
                then, now = brief(known.intent.arguments), brief(asked.arguments)
                raise _Departed("other_arguments", f"{tool.name} was called with {then}, and now with {now}")
            if known.receipt is None:
                raise _RecordsEnd(f"{tool.name} was under way when the attempt ended")
        return await super()._served(tool, asked, identity)

    async def settle_lost_writes(self) -> ApprovalPlace | None:
        """Always None: a replay makes no call, so there is no call of unknown outcome to ask a person about."""
        return None

    async def _intend(self, tool: Tool, intent: Intent) -> Try:
        """The run has no receipt for this call. If the run's own limits or `policy.most` refuse the call, raise ToolFailed, as the run did.
        If another limit may have refused it, so that the attempt ended with that error (`refusal`), raise `refusal` as ToolFailed.
        Otherwise raise _Departed: the run did not make the call, or its body caught the refusal of such a limit."""
        self.calls.check_calls(tool.name)
        self.calls.check_reservation(tool.reserve(intent.arguments, self.calls.remaining))
        called, told = f"{tool.name}({brief(intent.arguments)})", self.refusal
        if told is not None:
            self.notes.append(f"{called} has no receipt; it got the error {told.error_code}, with which the attempt ended")
            raise ToolFailed(told.error_code, told.message, retry_after_seconds=told.retry_after_seconds, details=told.details)
        verb = "changes the world" if tool.effect is Effect.WRITE else "leaves the sandbox"
        raise _Departed("new_call", f"{called} has no receipt; the replay did not make the call, because the tool {verb}")


class _Overlay(Artifacts):
    """The artifacts of the run, for reading, and a folder for the artifacts that the replay stores."""

    def __init__(self, real: Artifacts, folder: Path, most: int) -> None:
        super().__init__(Folder(folder), most)
        self._real = real

    def find(self, tenant: str, identity: str) -> ArtifactRef:
        try:
            return super().find(tenant, identity)
        except ArtifactMissing:
            return self._real.find(tenant, identity)

    def open(self, tenant: str, identity: str) -> int:
        try:
            return super().open(tenant, identity)
        except ArtifactMissing:
            return self._real.open(tenant, identity)


class _Again:
    """One attempt, run again."""

    def __init__(self, finished: Finished, worker: Worker, artifacts: Artifacts, policy: Policy, whole: Calls, number: int) -> None:
        self._finished = finished
        self._worker = worker
        self._artifacts = artifacts
        self._policy = policy
        self._number = number
        self._at = attempt_at(number)
        self._records = _Records(finished.operations)
        self._calls = Calls(finished.accepted.limits, policy.most.tool_calls)
        for attempted in whole.tries:  # without the calls of later attempts
            if attempted.inherited or attempted.intent.attempt <= number:
                self._calls.begin(attempted)
        self._then = self._ended_then()
        self._state = AttemptState(number=number, time=AttemptTime(finished.accepted.limits.timeout_seconds))
        self.notes: list[str] = []
        self.receipts = 0

    def _ended_then(self) -> AttemptResult:
        """The result that the attempt had in the run: the recorded one. An attempt without a recorded result is the last one of its run;
        its result is that of the response."""
        found, response = self._records.find(self._at), self._finished.response
        recorded = None if found is None else found.result if found.error is None else found.error.data
        if recorded is not None:
            return json_structs.decoded(recorded, AttemptResult)
        error = response.error
        if error is None:
            return AttemptResult(outputs=response.outputs)
        return AttemptResult(error=BodyError(error_code=error.error_code, message=error.message, partial=response.outputs))

    async def run(self) -> list[ReplayDifference]:
        """Run the attempt, and return the differences."""
        gateway = self._gateway()
        try:
            now = await self._worked(gateway)
        except _RecordsEnd as end:
            self._note(str(end))
            return []
        except _Departed as departed:
            return [self._difference(departed.kind, str(departed))]
        finally:
            self.receipts = len(gateway.asked_for)
        for note in gateway.notes:
            self._note(note)
        if isinstance(now, ApprovalPlace):
            self._note("it waited for a person when it ended")
            return []
        then = self._then.error
        if then is not None and then.error_code in _FROM_OUTSIDE:
            self._note(f"it ended with {then.error_code}, which the code did not cause; now it ends with {_result(now)}")
            return []
        return [*self._missing(gateway.asked_for), *self._parted(now)]

    def _refusal(self) -> BodyError | None:
        """The error of the attempt if a limit may have caused it, and no receipt of the attempt has this error."""
        error, tries = self._then.error, self._calls.tries
        if error is None or error.error_code not in _OF_LIMITS:
            return None
        told = [one.receipt.error for one in tries if one.intent.attempt == self._number and one.receipt and one.receipt.error]
        return None if any((one.error_code, one.message) == (error.error_code, error.message) for one in told) else error

    def _note(self, text: str) -> None:
        self.notes.append(f"attempt {self._number}: {text}")

    def _difference(self, kind: str, message: str) -> ReplayDifference:
        return ReplayDifference(attempt=self._number, kind=kind, message=message)

    def _missing(self, asked_for: set[str]) -> Iterator[ReplayDifference]:
        for attempted in self._calls.tries:
            intent, receipt = attempted.intent, attempted.receipt
            made = not attempted.inherited and intent.attempt == self._number and receipt is not None and not receipt.void
            if made and intent.identity not in asked_for:
                message = f"{intent.tool}({brief(intent.arguments)}) was called, and is not any more"
                yield self._difference("missing_call", message)

    def _parted(self, now: AttemptResult) -> Iterator[ReplayDifference]:
        then = self._then
        if (then.error and then.error.error_code) != (now.error and now.error.error_code):
            yield self._difference("outcome", f"it ended with {_result(then)}, and now with {_result(now)}")
            return
        before = then.outputs if then.error is None else then.error.partial
        after = now.outputs if now.error is None else now.error.partial
        for number, (path, was, is_now) in enumerate(changes(before, after)):
            if number == _MOST_PATHS:
                yield self._difference("outputs", "and more")
                return
            yield self._difference("outputs", f"outputs{path} was {was}, and is now {is_now}")

    # --- the body

    def _gateway(self) -> _Receipts:
        accepted, worker = self._finished.accepted, self._worker
        terms = CallTerms(
            run_id=self._finished.header.id,
            family=accepted.family,
            tenant=accepted.tenant,
            requested_by=accepted.requested_by,
            limits=accepted.limits,
            egress=worker.contract.egress,
            approvals=worker.approvals | frozenset(worker.contract.approvals_required) | self._policy.approvals,
        )
        clock = VirtualClock(self._finished.header.touched_at)
        made = _Receipts(terms, self._records, self._calls, worker.tools, self._policy, clock, self._state)
        made.refusal = self._refusal()
        return made

    async def _worked(self, gateway: _Receipts) -> AttemptResult | ApprovalPlace:
        header, accepted, tenant = self._finished.header, self._finished.accepted, self._finished.accepted.tenant
        timeout = accepted.limits.timeout_seconds
        body = await self._worker.body(accepted.limits, timeout, tenant)
        attempt = Attempt(self._state, self._at, tenant, gateway, self._records, self._artifacts, SILENT, self._policy.most)
        inputs = brought_in(accepted.request.inputs, lambda identity: self._artifacts.value(tenant, identity))
        contract = msgspec.structs.replace(self._worker.contract, limits=accepted.limits)
        order = order_of(header.id, self._number, contract, inputs, self._worker.tools, self._began(), timeout)
        outcome = await attempt.run(body, order, 0.0)
        if isinstance(outcome, ApprovalPlace):
            return outcome
        return await checked_outputs(outcome, self._worker.contract, self._artifacts, tenant, self._policy.inline_artifact_bytes)

    def _began(self) -> int:
        """The first value of `ctx.now()` in the attempt: for the first attempt, when the run began; for a later one, when the wait before
        it ended."""
        waits = [op for op in self._finished.operations if op.type is Type.WAIT and op.name == f"retry-{self._number - 1}"]
        return (waits[-1].ended_at if waits else None) or self._finished.header.started_at


def _result(outcome: AttemptResult) -> str:
    return "ok" if outcome.error is None else f"{outcome.error.error_code}: {outcome.error.message[:SHOWN]}"
