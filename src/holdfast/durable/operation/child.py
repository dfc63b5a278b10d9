"""run_in_child_context: operations that belong to a context operation. If the result of the context is recorded, a replay does not need the
operations inside it.

In an `async def` handler without plugins, the end of a context is written together with the next write, and the code does not wait for that
write. If the process crashes before the write, nothing that depends on the end is on disk either. The body then runs again on its recorded
operations, and ends in the same way. The update says when the context ended, so that `context.now()` is the same in every replay. A handler
outside of the runner cannot say when, because the wire has no member for it. There the code after a context waits for the write. Only the
end of a branch is written with the next write there, too: no code of the author runs directly after a branch, so the time is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from holdfast.durable import argument_checks
from holdfast.durable.config import ChildConfig
from holdfast.durable.decorators import named
from holdfast.durable.exceptions import ChildContextError, ExecutionError, InvocationError
from holdfast.durable.failure_logs import tell_raised
from holdfast.durable.history_mismatch import other_nesting
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.operation.step import raise_recorded, recalled, remembered
from holdfast.durable.plan import Lookup, Plan, Record, Run
from holdfast.durable.scope import Scope
from holdfast.model.error_text import frames_of
from holdfast.model.operations import Action, Operation, Status, SubType, Type

T = TypeVar("T")

LARGE_RESULT: Final = 256 * 1024
"""If the text of a context's result has more characters than this, the result is not stored. A replay makes the result again: it runs the
body on the recorded operations inside the context."""


def child_call(scope: Scope, func: Callable[[Any], T], name: str | None, config: ChildConfig[T] | None) -> tuple[Identity, Plan[T]]:
    """Check the arguments of `context.run_in_child_context`. Returns the identity of the call, and its plan."""
    argument_checks.function(func, "run_in_child_context")
    config, name = config or ChildConfig(), argument_checks.name(name, "run_in_child_context")
    at = scope.next_identity(Type.CONTEXT, config.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, named(name, func))
    return at, child(at, scope, func, config)


def child(at: Identity, scope: Scope, func: Callable[[Any], T], config: ChildConfig[T], *, is_branch: bool = False) -> Plan[T]:
    """Run `func` with a context of its own, inside a context operation, and return its result. `is_branch`: the context is a branch of a
    batch."""

    def body(inner: Scope) -> Plan[T]:
        value: T = yield Run(func, (scope.make_context(inner),), inline=True)
        inner.check_not_swallowed()
        return value

    return (yield from contained(at, scope, body, config, func, is_branch=is_branch))


def contained(
    at: Identity, scope: Scope, body: Callable[[Scope], Plan[T]], config: ChildConfig[T], func: Any = None, *, is_branch: bool = False
) -> Plan[T]:
    """Run the plan that `body` makes, inside the context operation `at`; record the result of the plan and return it. If the history has
    the result or the error already, the plan does not run. A virtual context (`config.is_virtual`) is not recorded, so its plan always
    runs; if the history has the context nevertheless, NonDeterministicExecutionError is raised.

    If the plan raises, ChildContextError is raised. There are two exceptions: a SerDesError is raised as SerDesError, and an error that
    ends the execution or the invocation is raised unchanged. If `config.serdes` is None, the return annotation of `func` says which class
    the result becomes (`remembered` in step.py). `is_branch`: the context is a branch of a batch.
    """
    seen: Operation | None = yield Lookup(at)
    if seen is not None and config.is_virtual:
        problem = "Recorded here: a child context. The code asks for: a virtual context, which is not recorded"
        setting = "`is_virtual`, or the `nesting_type` of a map or parallel,"
        raise other_nesting(f"{problem} ({at.name or at.operation_id})", setting, at.operation_id)
    if seen is not None and seen.status is Status.SUCCEEDED and not seen.replay_children:
        value: T = recalled(seen, config.serdes, scope, func)
        return value
    if seen is not None and seen.status is Status.FAILED:
        raise_recorded(seen, ChildContextError)
    if seen is None and not config.is_virtual:
        yield Record(at.update(Action.START), wait=False)
    hooks, inner = scope.state.hooks, scope.child(at, virtual=config.is_virtual)
    try:
        inside = body(inner)
        raw: T = yield from inside if hooks is None else hooks.running(at, inside, seen)
        text, result = remembered(raw, config.serdes, at, scope, func)
    except ExecutionError:
        raise
    except Exception as error:
        if isinstance(error, InvocationError) and error.is_retryable():
            raise
        described = ErrorObject.from_exception(error)
        tell_raised(scope.state, error, described.to_failure(), at)
        if not config.is_virtual:
            yield _end(at, scope, Action.FAIL, is_branch=is_branch, error=described.to_failure(), frames=frames_of(error))
        elif hooks is not None:
            hooks.context_ended(at, error=described)
        described.raise_as_operation_error(ChildContextError)
    finally:
        inner.leave()
    if config.is_virtual or (seen is not None and seen.replay_children):
        if hooks is not None:
            hooks.context_ended(at, is_replayed=seen is not None)
        if config.is_virtual:
            scope.unread += inner.unread  # a virtual context records no end, so the surrounding context warns about unread failures
        return cast("T", result)
    large = text is not None and len(text) > LARGE_RESULT
    if large:
        summary = config.summary_generator(raw) if config.summary_generator else ""
        text = argument_checks.optional_text(summary, "run_in_child_context", "what the summary_generator gave")
    yield _end(at, scope, Action.SUCCEED, is_branch=is_branch, payload=text, replay_children=large)
    inner.tell_unread()
    return cast("T", result)


def _end(at: Identity, scope: Scope, action: Action, *, is_branch: bool, **values: object) -> Record:
    """The request that records the end of a context with `action`. Its `wait` is False if the end may be written together with the next
    write, so that the code need not wait for it. `is_branch`: the context is a branch of a batch. `values` are further members of the
    update."""
    rides = scope.state.ends_ride and (is_branch or scope.state.has_service_clock)
    ended_at = scope.ends_now() if rides and not is_branch else None
    return Record(at.update(action, ended_at=ended_at, **values), wait=not rides)
