"""The base of both contexts (`def` and `async def`): time, ids and random numbers that are the same in every replay, and what needs no
plan."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from holdfast.durable import argument_checks
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.interrupts import ContinueAsNew
from holdfast.durable.logger import Logger
from holdfast.durable.protocols import LoggerInterface
from holdfast.durable.scope import Scope
from holdfast.durable.types import LambdaContext
from holdfast.model import codec
from holdfast.model.typed import without_models


@dataclass(frozen=True)
class ExecutionContext:
    """What a handler can read about its execution: the ARN."""

    durable_execution_arn: str


class BaseContext:
    """The base of both contexts: time, ids and random numbers that are the same in every replay."""

    def __init__(self, scope: Scope, lambda_context: LambdaContext | None = None) -> None:
        self._scope = scope
        self.lambda_context = lambda_context

    @property
    def execution_context(self) -> ExecutionContext:
        """What this handler can read about its execution: the ARN."""
        return ExecutionContext(self._scope.state.durable_execution_arn)

    @property
    def logger(self) -> Logger:
        """A logger that adds the execution's fields to each line. It writes nothing while this context replays."""
        return self._scope.logger

    def set_logger(self, new_logger: LoggerInterface) -> None:
        """Use this logger for the lines of this context, and of the contexts that it makes later."""
        self._scope.log_to(new_logger)

    def is_replaying(self) -> bool:
        """Whether this context still repeats the calls of an earlier invocation."""
        return self._scope.replaying

    def now(self) -> datetime:
        """The service's time at this context's latest durable call: when the operation of that call ended; after `create_callback` and
        `create_timer`, when it began. The time never goes back, also if an operation ended before the operation of an earlier call. Before
        the first call of a child context: the time of the context around it. Before the first call of the handler: when the execution
        began. The same in every replay."""
        return self._scope.now()

    def uuid(self) -> uuid.UUID:
        """A new UUID at each call. A replay gets the same UUIDs in the same order."""
        return self._scope.uuid()

    def random(self) -> float:
        """A random number at each call, from 0 up to but not including 1. A replay gets the same numbers in the same order."""
        return self._scope.random()

    def remaining(self) -> timedelta:
        """How long until the execution times out; zero if that time has passed. It differs between replays, so do not let it decide which
        durable calls the code makes. In a Lambda runtime it follows from the `execution_timeout` in the code, not from AWS's setting."""
        return self._scope.remaining()

    def patched(self, name: str) -> bool:
        """Whether this execution runs the changed code: write `if context.patched("name"):` around a change, so that executions which began
        with the old code can continue. Do not await it.

        True if the execution reaches this call for the first time: it records a marker with this name. Also True in every replay that finds
        the marker. False if the history continues after this point without the marker: an earlier invocation passed this point with the old
        code. All calls with one name in one context give the same answer. Raises ValidationError if the name is empty or not allowed.
        """
        if not argument_checks.text(name, "patched", "name"):
            raise ValidationError('patched: the name of the change is empty. Give it a name: `context.patched("new-tax")`.')
        checked = argument_checks.name(name, "patched")
        return self._scope.patched(checked or name)

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this execution, and start a new one with this input and an empty history. For loops that never end.

        This raises ContinueAsNew to leave the handler: do not catch it. A caller that waits for the result gets the result of the last
        execution. Raises ValidationError in a branch or a child context, and PayloadNotJson, InvalidParameter or TypeError if `input`
        cannot be stored as JSON. On AWS Lambda the execution fails: only a Holdfast engine can start the new one.
        """
        if self._scope.prefix is not None:
            raise ValidationError("continue_as_new: only the handler itself can continue as new, not a branch or a child context.")
        continuation = ContinueAsNew(codec.dumps(without_models(input)))
        self._scope.continuing = True
        raise continuation
