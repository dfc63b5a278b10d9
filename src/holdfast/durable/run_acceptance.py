"""How the drivers ask the worker service, through the port, to accept a run or an enqueue (plan.Accept)."""

from __future__ import annotations

from typing import Final, cast

from holdfast.durable.exceptions import InvocationError
from holdfast.durable.plan import Accept
from holdfast.durable.state import ExecutionState
from holdfast.model.errors import HoldfastError, RunUnavailable
from holdfast.model.operations import Failure, Order
from holdfast.model.run_port import RunAsked, RunPort

_INSIDE: Final = (
    "works only inside the process of a Holdfast engine: a program with holdfast.open, `holdfast run`, `holdfast runner`, or `holdfast "
    "serve` of a Python file without --reload. On AWS Lambda, from a template, and under `holdfast dev` and `holdfast serve --reload`, "
    "functions run in processes of their own, which have no engine. There, "
)
_NO_RUNS: Final = (
    f"context.run {_INSIDE}"
    "call the worker over HTTP inside a step: POST /v1/workers/{id}/invoke, with an `idempotency_key` in the body, so that a step that is "
    "tried again finds the same run."
)
_NO_QUEUES: Final = (
    f"context.enqueue {_INSIDE}"
    "enqueue over HTTP inside a step: POST /v1/queues/{queue}, with an `idempotency_key` in the body, so that a step that is tried again "
    "finds the same execution or run."
)


async def accepted(state: ExecutionState, accept: Accept) -> Order | Failure:
    """For an `async def` handler: ask the worker service to accept a run or an enqueue. Returns the Order if it was accepted, the Failure
    if it was refused. Raises RunUnavailable if this process can never accept it, BackgroundThreadError if there was no answer."""
    port = _run_port(state, accept)
    try:
        return await port.accept(state.header, accept.identity.operation_id, accept.asked)
    except Exception as error:
        raise _not_accepted(state, error) from error


def accepted_blocking(state: ExecutionState, accept: Accept) -> Order | Failure:
    """For a `def` handler: ask the worker service to accept a run or an enqueue, and block until the answer is there. Returns the Order if
    it was accepted, the Failure if it was refused. Raises RunUnavailable if this process can never accept it, BackgroundThreadError if
    there was no answer."""
    port = _run_port(state, accept)
    try:
        return port.accept_blocking(state.header, accept.identity.operation_id, accept.asked)
    except Exception as error:
        raise _not_accepted(state, error) from error


def _run_port(state: ExecutionState, accept: Accept) -> RunPort:
    state.check_usable()
    if not hasattr(state.port, "accept"):
        raise RunUnavailable(_NO_RUNS if isinstance(accept.asked, RunAsked) else _NO_QUEUES)
    return cast("RunPort", state.port)


def _not_accepted(state: ExecutionState, error: Exception) -> BaseException:
    """The exception for a run or an enqueue that was neither accepted nor refused, because `error` was raised. If this process can never
    accept it, the exception is a RunUnavailable, which the author's code can catch. Otherwise it is the exception that `state.failed` makes
    from `error`: it ends the invocation, and later durable calls get it, too."""
    if isinstance(error, RunUnavailable):
        return RunUnavailable(str(error))
    trouble = error if isinstance(error, HoldfastError) else InvocationError(f"A run or an enqueue could not be accepted: {error!r}")
    state.broken = state.failed(trouble)
    return state.broken
