"""with_retry: run a block of durable calls. After an error, and a durable wait, run the block again from its beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.durable import argument_checks
from holdfast.durable.author_lines import is_refusal
from holdfast.durable.config import ChildConfig
from holdfast.durable.exceptions import ExecutionError, ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.child import contained
from holdfast.durable.plan import Plan, Run
from holdfast.durable.retries import WithRetryConfig, create_retry_strategy
from holdfast.durable.scope import Scope
from holdfast.model.operations import SubType, Type

T = TypeVar("T")


def retry_call(scope: Scope, func: Callable[..., Any], config: WithRetryConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
    """Check the arguments of a `with_retry` that runs in a child context. Returns the identity of that context, and the plan."""
    argument_checks.function(func, "with_retry")
    child, name = config.child_context_config or ChildConfig(), argument_checks.name(name, "with_retry")
    at = scope.next_identity(Type.CONTEXT, child.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, name or None)
    return at, retried_inside(at, scope, func, config, child)


def retried(context: Any, func: Callable[..., Any], config: WithRetryConfig[T], name: str | None) -> Plan[T]:
    """Run `func(context, attempt)` until it returns, and return its result. If it raises and the strategy allows no other attempt, the
    error is raised unchanged. Before each further attempt there is a durable wait. If `name` is given, that wait is named
    `{name}-backoff-{attempt}`, with the number of the attempt that failed. Two kinds of errors are raised at once, and the strategy is not
    asked: an ExecutionError, and an error by which Holdfast refuses an argument."""
    strategy = config.retry_strategy or create_retry_strategy()
    attempt = 1
    while True:
        try:
            value: T = yield Run(func, (context, attempt), inline=True)
        except ExecutionError:
            raise  # an error of the execution, not of this attempt
        except Exception as error:
            never = isinstance(error, ValidationError | TypeError) and is_refusal(error)
            decision = None if never else strategy(error, attempt)
            if decision is None or not decision.should_retry:
                raise
        else:
            return value
        yield Run(context.wait, (decision.delay, f"{name}-backoff-{attempt}" if name else None), inline=True)
        attempt += 1


def retried_inside(at: Identity, scope: Scope, func: Callable[..., Any], config: WithRetryConfig[T], child: ChildConfig[T]) -> Plan[T]:
    """Run `func` in the child context `at` until an attempt succeeds or no other attempt is allowed, and return the result. The context (if
    it is not virtual) records the result, or the error of the last attempt. That error is raised as ChildContextError, a SerDesError as
    SerDesError. An ExecutionError and a retryable InvocationError are raised unchanged, and not recorded."""

    def body(inner: Scope) -> Plan[T]:
        value = yield from retried(scope.make_context(inner), func, config, at.name)
        inner.check_not_swallowed()
        return value

    return (yield from contained(at, scope, body, child, func))
