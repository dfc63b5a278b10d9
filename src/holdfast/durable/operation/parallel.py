"""parallel: branches side by side, each in a context of its own; who may start and when enough is enough is decided here, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.durable.concurrency.models import BatchItem, BatchResult, CompletionPolicy, envelope_summary_generator
from holdfast.durable.config import (
    BatchItemStatus,
    ChildConfig,
    CompletionItemStatus,
    NestingType,
    ParallelBranch,
    ParallelConfig,
)
from holdfast.durable.exceptions import DurableOperationError, ExecutionError, InvocationError
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.operation.child import child, contained
from holdfast.durable.plan import Done, NextDone, Plan, Spawn
from holdfast.durable.scope import Scope
from holdfast.model.operations import SubType


def parallel(at: Identity, scope: Scope, functions: Sequence[Any], config: ParallelConfig) -> Plan[BatchResult[Any]]:
    """Run functions side by side."""
    config.completion_config.validate_for_total(len(functions))
    names = [
        (function.name if isinstance(function, ParallelBranch) else None) or f"parallel-branch-{index}"
        for index, function in enumerate(functions)
    ]

    def body(inner: Scope) -> Plan[BatchResult[Any]]:
        identities = [inner.branch(at, index, SubType.PARALLEL_BRANCH, name) for index, name in enumerate(names)]
        return _batch(inner, identities, functions, config)

    summary = envelope_summary_generator("ParallelResult", config.summary_generator)
    whole: ChildConfig[BatchResult[Any]] = ChildConfig(serdes=config.serdes, summary_generator=summary)
    return (yield from contained(at, scope, body, whole))


def _batch(
    scope: Scope, identities: Sequence[Identity], functions: Sequence[Callable[..., Any]], config: ParallelConfig
) -> Plan[BatchResult[Any]]:
    """Admit branches in order while there is room, until all are done or the policy has seen enough."""
    total = len(functions)
    policy = CompletionPolicy.from_config(total, config.completion_config)
    branch: ChildConfig[Any] = ChildConfig(
        serdes=config.item_serdes if config.item_serdes is not None else config.serdes,
        is_virtual=config.nesting_type is NestingType.FLAT,
    )
    items: dict[int, BatchItem[Any]] = {}
    room = config.max_concurrency or total
    succeeded = failed = 0

    def statuses() -> tuple[CompletionItemStatus, ...]:
        return _statuses(identities, items) if policy.should_complete is not None else ()

    while not policy.is_tolerance_exceeded(failed) and not policy.is_complete(succeeded, failed, statuses()):
        while len(items) < total and len(items) - succeeded - failed < room:
            index = len(items)
            items[index] = BatchItem(index, BatchItemStatus.STARTED)
            yield Spawn(index, child(identities[index], scope, functions[index], branch))
        done: Done = yield NextDone()
        if done.error is None:
            items[done.key] = BatchItem(done.key, BatchItemStatus.SUCCEEDED, done.result)
            succeeded += 1
            continue
        if isinstance(done.error, ExecutionError) or (isinstance(done.error, InvocationError) and done.error.is_retryable()):
            raise done.error  # not a branch's failure: the execution's, or this invocation's
        items[done.key] = BatchItem(done.key, BatchItemStatus.FAILED, error=_escaped(done.error))
        failed += 1
    reason = policy.reason(succeeded, failed, statuses())
    return BatchResult([items[index] for index in sorted(items)], reason)


def _escaped(error: Exception) -> ErrorObject:
    """What escaped the branch, not the wrapper around it: the same as the branch's own record says."""
    if isinstance(error, DurableOperationError):
        return ErrorObject(error.message, error.error_type, error.data, error.stack_trace)
    return ErrorObject.from_exception(error)


def _statuses(identities: Sequence[Identity], items: dict[int, BatchItem[Any]]) -> tuple[CompletionItemStatus, ...]:
    return tuple(
        CompletionItemStatus(index, identity.name, items[index].status if index in items else None)
        for index, identity in enumerate(identities)
    )
