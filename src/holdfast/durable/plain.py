"""Plain functions: ordinary handlers that durable functions invoke. Each call is an execution of its own, without durable calls."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, overload

from holdfast.durable.base_context import BaseContext
from holdfast.durable.execution import DurableFunction
from holdfast.durable.user_code import is_async
from holdfast.model.execution import Terms
from holdfast.model.ids import LATEST, Arn

log = logging.getLogger("holdfast.plain")

MAX_SECONDS = 900
"""The longest time that Lambda allows for one invocation of an ordinary function."""


class PlainContext:
    """The context object that a plain function gets. It has those members of Lambda's context object that Holdfast supports."""

    def __init__(self, calls: BaseContext) -> None:
        arn = calls.execution_context.durable_execution_arn
        execution = Arn.parse(arn)
        self.aws_request_id = execution.id
        self.function_name = execution.function
        self.function_version = execution.version
        self.invoked_function_arn = arn.partition("/")[0]
        self._calls = calls

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the execution times out; 0 if that time has passed."""
        return int(self._calls.remaining().total_seconds() * 1000)

    def log(self, msg: object) -> None:
        """Write a line to the log `holdfast.plain`, at INFO."""
        log.info("%s", msg)


class PlainFunction(DurableFunction):
    """A plain function: an ordinary handler with what an engine must know to run it."""

    def __init__(
        self, call: Callable[..., Any], plain: Callable[[Any, Any], Any], *, name: str | None, version: int | str, terms: Terms
    ) -> None:
        super().__init__(call, name=name, version=version, terms=terms)
        self._plain = plain

    def __call__(self, event: Any, context: Any) -> Any:
        """Call the ordinary handler itself, without an engine, and return what it returns. A Lambda runtime calls this."""
        return self._plain(event, context)


@overload
def plain_function(handler: Callable[[Any, Any], Any]) -> DurableFunction: ...
@overload
def plain_function(
    handler: None = None, *, name: str | None = None, version: int | str = LATEST, timeout: int = MAX_SECONDS
) -> Callable[[Callable[[Any, Any], Any]], DurableFunction]: ...
def plain_function(
    handler: Callable[[Any, Any], Any] | None = None,
    *,
    name: str | None = None,
    version: int | str = LATEST,
    timeout: int = MAX_SECONDS,
) -> DurableFunction | Callable[[Callable[[Any, Any], Any]], DurableFunction]:
    """Make an ordinary `handler(event, context)` a function that `context.invoke` and `context.enqueue` can start; `def` and `async def`
    both work.

    Each start is an execution of its own. The result of the handler is stored; if the handler raises, the execution fails. If the process
    dies before the result or the failure is stored, the handler is called again. `name` None means the name of the handler. `version` is
    the version of this function. `timeout` is the time limit of one execution in seconds.
    """
    terms = Terms(timeout).checked()

    def decorate(plain: Callable[[Any, Any], Any]) -> DurableFunction:
        @functools.wraps(plain)
        def call(event: Any, calls: BaseContext) -> Any:
            return plain(event, PlainContext(calls))

        if is_async(plain):
            call._original = plain  # type: ignore[attr-defined]
        return PlainFunction(call, plain, name=name, version=version, terms=terms)

    return decorate if handler is None else decorate(handler)
