"""What `map` and `parallel` share: branches that run concurrently, each in a context of its own.

This module decides which branch may start and when the batch is complete, and rebuilds the result of a batch that ended earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.durable.concurrency.models import BatchItem, BatchResult, CompletionPolicy, CompletionRecord, envelope_summary_generator
from holdfast.durable.concurrency.unread import tolerates, watch
from holdfast.durable.config import BatchItemStatus, ChildConfig, CompletionItemStatus, MapConfig, NestingType, ParallelConfig
from holdfast.durable.exceptions import DurableOperationError, ExecutionError, InvocationError
from holdfast.durable.history_mismatch import other_nesting
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.operation.child import child, contained
from holdfast.durable.plan import Done, Lookup, NextDone, Plan, Spawn
from holdfast.durable.scope import Scope, Unread
from holdfast.model.operations import OPEN, Operation, Status, SubType

T = TypeVar("T")
BatchConfig = ParallelConfig | MapConfig[Any]


class BatchKind(msgspec.Struct, frozen=True):
    """The names in which `map` and `parallel` differ: the sub-type of a branch, the prefix of its default name, and the `type` of the
    record that stands for a result which is too large to store."""

    branch: SubType
    prefix: str
    """A branch to which its author gave no name is called by this prefix and its index."""
    result_type: str


class Branch(msgspec.Struct, frozen=True):
    """One branch: the function that it runs, and the name that its author gave it (None: no name)."""

    func: Callable[[Any], Any]
    name: str | None = None


def batch(
    at: Identity, scope: Scope, kind: BatchKind, branches: Callable[[], Sequence[Branch]], config: BatchConfig, func: Any
) -> Plan[BatchResult[Any]]:
    """Run branches concurrently, inside a context operation, and return the result of the batch. `branches` is a function that makes the
    list of branches; it is not called if the history has the result or the error of the batch. `func` (a hints.BatchOf) says which class
    the result of each branch becomes."""

    def body(inner: Scope) -> Plan[BatchResult[Any]]:
        made = _Batch(at, inner, kind, branches(), config)
        seen: Operation | None = yield Lookup(at)
        if seen is not None and seen.status is Status.SUCCEEDED:
            return (yield from made.again(seen.result))
        return (yield from made.first())

    summary = envelope_summary_generator(kind.result_type, config.summary_generator)
    whole: ChildConfig[BatchResult[Any]] = ChildConfig(serdes=config.serdes, summary_generator=summary)
    result = yield from contained(at, scope, body, whole, func)
    _watch(at, scope, config, result)
    return result


def _watch(at: Identity, scope: Scope, config: BatchConfig, result: object) -> None:
    """Note a result in the scope, if it has failures which the completion config does not tolerate. If the author's code never reads these
    failures, the scope logs a warning later."""
    if not isinstance(result, BatchResult):  # the author's serdes returned something else than a BatchResult
        return
    failed = result.failure_count
    if failed and not tolerates(config.completion_config, result.completion_reason.value, result.success_count):
        watch(result)
        scope.unread = (*scope.unread, Unread(at, result, failed, result.total_count))


class _Batch:
    """The branches of one `map` or `parallel`. `at` is the identity of the batch, `scope` the scope inside the context of the batch."""

    def __init__(self, at: Identity, scope: Scope, kind: BatchKind, branches: Sequence[Branch], config: BatchConfig) -> None:
        self._at = at
        self._scope = scope
        self._kind = kind
        self._branches = branches
        self._completion = config.completion_config
        self._room = config.max_concurrency or len(branches)
        self._flat = config.nesting_type is NestingType.FLAT
        serdes = config.item_serdes if config.item_serdes is not None else config.serdes
        self._each: ChildConfig[Any] = ChildConfig(serdes=serdes, is_virtual=self._flat)

    def _identity(self, index: int) -> Identity:
        name = self._branches[index].name
        return self._scope.branch(self._at, index, self._kind.branch, name if name is not None else f"{self._kind.prefix}{index}")

    def _run(self, index: int, *, again: bool = False) -> Plan[Any]:
        at, scope = self._identity(index), self._scope
        if again:  # the branch repeats calls that this same invocation made before
            scope = scope.child(self._at)
            scope.replaying = True
        elif scope.replaying and not self._flat:
            seen = yield Lookup(at)
            if seen is None:  # this branch is new work, inside a batch that is replayed
                scope = scope.child(self._at)
                scope.replaying = False
            elif scope.state.hooks is not None:
                scope.state.hooks.met_open(seen)
        return (yield from child(at, scope, self._branches[index].func, self._each, is_branch=True))

    def first(self) -> Plan[BatchResult[Any]]:
        """Start branches in the order of their indexes, at most `max_concurrency` at a time, until all have ended or the completion policy
        ends the batch. Returns the result of the batch. If a branch raises an error that ends the execution or the invocation, that error
        is raised here."""
        total = len(self._branches)
        policy = CompletionPolicy.from_config(total, self._completion)
        items: list[BatchItem[Any]] = []
        succeeded = failed = 0
        while True:
            statuses = self._statuses(items) if policy.should_complete is not None else ()
            decision = policy.evaluate(succeeded, failed, statuses)
            if policy.is_complete(succeeded, failed, statuses, decision) or not policy.should_continue(failed):
                return BatchResult(items, policy.reason(succeeded, failed, statuses, decision))
            # A branch that waits for something outside counts as running: `max_concurrency` limits branches, not threads.
            while len(items) < total and len(items) - succeeded - failed < self._room:
                index = len(items)
                items.append(BatchItem(index, BatchItemStatus.STARTED))
                yield Spawn(index, self._run(index), partial(self._run, index, again=True))
            done: Done = yield NextDone()
            items[done.key] = _ended(done.key, done.result, done.error)
            if done.error is None:
                succeeded += 1
            else:
                failed += 1

    def _statuses(self, items: Sequence[BatchItem[Any]]) -> tuple[CompletionItemStatus, ...]:
        return tuple(
            CompletionItemStatus(index, branch.name, items[index].status if index < len(items) else None)
            for index, branch in enumerate(self._branches)
        )

    def again(self, envelope: str | None) -> Plan[BatchResult[Any]]:
        """The result of a batch that ended in an earlier invocation, if the result was too large to store. `envelope` is the record that
        was stored instead.

        A branch that had not ended when the batch ended is STARTED in the result, also if it has ended since. If `envelope` is not such a
        record (an older SDK wrote something else), each branch gets the status that the history has for it now; a branch without a record
        is STARTED. Raises NonDeterministicExecutionError if the branches were recorded with another `nesting_type`.
        """
        record = CompletionRecord.from_summary_payload(envelope)
        items: list[BatchItem[Any]] = []
        for index in range(min(len(self._branches), record.started_total) if record else len(self._branches)):
            at = self._identity(index)
            seen: Operation | None = yield Lookup(at)
            self._check_nesting(at, seen, ended=record is not None and index not in record.started_indexes)
            if record is not None and index in record.started_indexes:
                items.append(BatchItem(index, BatchItemStatus.STARTED))
            elif seen is not None and seen.status is Status.FAILED:
                error = ErrorObject.from_failure(seen.error) if seen.error else None
                items.append(BatchItem(index, BatchItemStatus.FAILED, error=error))
            elif (seen is not None and seen.status is Status.SUCCEEDED) or (record is not None and self._flat):
                items.append((yield from self._rerun(index)))
            else:  # an older SDK wrote no record, and this branch has no end
                items.append(BatchItem(index, BatchItemStatus.STARTED))
        if record is None:
            return BatchResult.from_items(items, self._completion)
        return BatchResult(items, record.completion_reason)

    def _rerun(self, index: int) -> Plan[BatchItem[Any]]:
        """The BatchItem of a branch that has ended. The result is read from the history. If the history does not have the result (a FLAT
        branch, or a result that was too large), the branch runs again on its recorded operations."""
        try:
            value = yield from self._run(index)
        except Exception as error:
            return _ended(index, None, error)
        return _ended(index, value, None)

    def _check_nesting(self, at: Identity, seen: Operation | None, *, ended: bool) -> None:
        if self._flat and seen is not None:
            problem = "Recorded here: a NESTED branch. The code asks for: FLAT branches"
        elif not self._flat and ended and (seen is None or seen.status in OPEN):
            problem = "Recorded here: a FLAT branch, which has no record of its own end. The code asks for: NESTED branches"
        else:
            return
        raise other_nesting(f"{problem} ({at.name or at.operation_id})", "`nesting_type`", at.operation_id)


def _ended(index: int, value: Any, error: Exception | None) -> BatchItem[Any]:
    """The BatchItem of a branch that returned `value`, or raised `error` (None: it raised none). An error that ends the whole execution or
    invocation is raised instead."""
    if error is None:
        return BatchItem(index, BatchItemStatus.SUCCEEDED, value)
    if isinstance(error, ExecutionError) or (isinstance(error, InvocationError) and error.is_retryable()):
        raise error
    return BatchItem(index, BatchItemStatus.FAILED, error=_escaped(error))


def _escaped(error: Exception) -> ErrorObject:
    """The error that the code of a branch raised. If Holdfast wrapped it into a DurableOperationError, the fields of the wrapped error are
    taken."""
    if isinstance(error, DurableOperationError):
        return ErrorObject(error.message, error.error_type, error.data, error.stack_trace)
    return ErrorObject.from_exception(error)
