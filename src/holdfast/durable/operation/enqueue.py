"""enqueue: start an execution in a queue, and do not wait for it.

The operation is a step whose result is the id of the new execution. One write closes the step and makes the new execution, so there is only
one new execution, also if a process crashes. The new execution has no parent: if the execution that enqueued it is stopped, the new one
continues. If the request is refused, for example because the queue is full or the target does not exist, the step fails.
"""

from __future__ import annotations

import msgspec

from holdfast.durable import argument_checks
from holdfast.durable.enqueue_refusal import EnqueueRefused, enqueue_asked
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.step import raise_recorded
from holdfast.durable.plan import Accept, Lookup, Plan, Record
from holdfast.durable.scope import Scope
from holdfast.model.operations import ENQUEUE, Action, Failure, Kind, Operation, Order, Status, Type
from holdfast.model.run_port import EnqueueAsked


def enqueue_call(scope: Scope, target: object, input: object, name: str | None, **asked: object) -> tuple[Identity, Plan[str]]:
    """Check the arguments of `context.enqueue`. Returns the identity of the call, and its plan."""
    wanted = enqueue_asked(target, input, **asked)
    at = scope.next_identity(Type.STEP, ENQUEUE, argument_checks.name(name, "enqueue") or wanted.target)
    return at, enqueue(at, scope, wanted)


def enqueue(at: Identity, scope: Scope, asked: EnqueueAsked) -> Plan[str]:
    """Enqueue the target, unless the history has the end of this step already, and return the id of the new execution or run. Raises
    EnqueueRefused if the request was refused."""
    seen: Operation | None = yield Lookup(at)
    while seen is None or seen.status is Status.STARTED:
        accepted: Order | Failure = yield Accept(at, asked)
        if seen is None:
            yield Record(at.update(Action.START), wait=False)
        if isinstance(accepted, Failure):
            yield Record(at.update(Action.FAIL, error=accepted))
        else:
            yield Record(at.update(Action.SUCCEED, function_name=_address(asked, accepted), order=accepted))
        seen = yield Lookup(at)
    scope.passed(seen)
    if seen.status is Status.FAILED:
        raise_recorded(seen, EnqueueRefused)
    return msgspec.json.decode(seen.result or '""', type=str)


def _address(asked: EnqueueAsked, order: Order) -> str:
    """The name of the target, which the update carries. If the target is a function and a version was given, `:version` is added. For a
    worker or a pipeline it is not added: their order has the version."""
    return f"{asked.target}:{asked.version}" if order.kind is Kind.FUNCTION and asked.version is not None else asked.target
