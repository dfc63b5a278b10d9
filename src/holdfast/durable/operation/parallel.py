"""parallel: several functions, in branches that run concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.durable import argument_checks
from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.config import ParallelBranch, ParallelConfig
from holdfast.durable.hints import BatchOf
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.batch import BatchKind, Branch, batch
from holdfast.durable.plan import Plan
from holdfast.durable.scope import Scope
from holdfast.model.operations import SubType, Type

_PARALLEL: Final = BatchKind(SubType.PARALLEL_BRANCH, "parallel-branch-", "ParallelResult")


def parallel_call(
    scope: Scope, functions: Sequence[Any], name: str | None, config: ParallelConfig | None
) -> tuple[Identity, Plan[BatchResult[Any]]]:
    """Check the arguments of `context.parallel`. Returns the identity of the call, and its plan."""
    if config is not None:
        config.completion_config.validate_for_total(len(functions))
    for number, function in enumerate(functions):
        argument_checks.function(function, "parallel", f"branch {number}")
    branch_names(functions)
    at = scope.next_identity(Type.CONTEXT, SubType.PARALLEL.value, argument_checks.name(name, "parallel"))
    return at, parallel(at, scope, functions, config or ParallelConfig())


def parallel(at: Identity, scope: Scope, functions: Sequence[Any], config: ParallelConfig) -> Plan[BatchResult[Any]]:
    """Run functions concurrently, one branch for each, until the batch is complete, and return its result."""

    def branches() -> list[Branch]:
        return [Branch(function, name) for function, name in zip(functions, branch_names(functions), strict=True)]

    return batch(at, scope, _PARALLEL, branches, config, BatchOf(functions.__getitem__))


def branch_names(functions: Sequence[Any]) -> list[str | None]:
    """The name of each branch; None for a branch without one. Raises ValidationError for a name that is not valid."""
    given = [function.name if isinstance(function, ParallelBranch) else None for function in functions]
    return [argument_checks.name(name, "parallel", f"name of branch {number}") for number, name in enumerate(given)]
