"""LambdaApi: every operation of the durable API as a Python call. The HTTP routes call it.

    the route reads a request → LambdaApi → the route writes the answer

All calls run on the engine's loop. They raise Holdfast's errors; the HTTP layer turns these into AWS's error names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.descriptions.executions import arn_of
from holdfast.engine.engine import Engine
from holdfast.lambda_api.operations import checks
from holdfast.lambda_api.operations.executions import ExecutionReads, found, position
from holdfast.lambda_api.operations.invoke import SYNC_BYTES, Invoke, Invoked, InvokeOperation, Tail, payload_text
from holdfast.lambda_api.operations.lookup import (
    FoundFunction,
    FunctionLookup,
    Plain,
    RegisteredFunctions,
    changed_terms,
    configuration,
    page,
)
from holdfast.model import wire
from holdfast.model.audit import Actor, Notes
from holdfast.model.codec import text_of
from holdfast.model.errors import HoldfastError, InvalidParameter, PayloadTooLarge
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, Execution
from holdfast.model.ids import IdSource, id_at
from holdfast.model.operations import Failure
from holdfast.model.state_pages import PAGE_BYTES, Mark, cut, state_marker, weight
from holdfast.model.verbs import Checkpointed
from holdfast.model.wire import Wire

MAX_CALLBACK_BYTES = 1024 * 1024
_ACCEPTED: Wire = {}


class LambdaApi(ExecutionReads):
    """The operations, on an open engine. `lookup` finds functions (None: those that the engine was opened with); `plain` calls functions
    that are not durable (None: they cannot be invoked); `tail` gives the last log lines of an execution."""

    def __init__(
        self,
        engine: Engine,
        *,
        lookup: FunctionLookup | None = None,
        plain: Plain | None = None,
        tail: Tail | None = None,
        ids: IdSource = id_at,
    ) -> None:
        super().__init__(engine, lookup or RegisteredFunctions(engine.registry))
        self._seal = engine.store.seal
        self._ids = ids
        self._invoking = InvokeOperation(engine, self.lookup, plain, tail)

    def request_id(self) -> str:
        """Make a new request id."""
        return self._ids(self.engine.clock.now())

    # --- executions

    async def invoke(self, asked: Invoke) -> Invoked:
        """Invoke: start an execution of a durable function, or call a plain function. For a synchronous invocation, wait for the end."""
        return await self._invoking.invoke(asked)

    async def checkpoint(self, arn: str, asked: wire.CheckpointAsked) -> Wire:
        """CheckpointDurableExecution: the checkpoint is on disk when this returns. Checkpoints that arrive at about the same time share one
        commit."""
        at = position(self.engine.store, checks.execution_arn(arn), asked.token)
        future: asyncio.Future[Checkpointed] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Checkpointed | HoldfastError) -> None:
            if future.done():  # the caller's task was cancelled; its checkpoint stays written
                return
            if isinstance(answer, HoldfastError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        # Every checkpoint has a client token, by which the store knows what this invocation has seen (EnginePort.seen).
        client_token = asked.client_token or self.request_id()
        self.engine.port.checkpoint_soon(at, asked.updates, on_answer, client_token=client_token)
        try:
            answer = await future
        except PayloadTooLarge as error:
            raise InvalidParameter(str(error)) from None
        return self._changed(answer, at.revision)

    def _changed(self, answer: Checkpointed, seen: int) -> Wire:
        operations, more = answer.operations, None
        if len(operations) > 1 and sum(map(weight, operations)) > PAGE_BYTES:
            page, more = cut(sorted(operations, key=lambda operation: operation.place), Mark(seen, 0))
            operations = tuple(page)
        state: Wire = {"Operations": [wire.operation_to_wire(operation, wire.seconds) for operation in operations]}
        if more is not None:
            state["NextMarker"] = state_marker(more)
        shown: Wire = {"NewExecutionState": state}
        if answer.token is not None:
            shown["CheckpointToken"] = self._seal.token(answer.token)
        return shown

    async def stop(self, arn: str, error: Failure, by: Actor | None = None) -> Wire:
        """StopDurableExecution. If the execution has ended already, nothing changes. If it has continued as another execution, that other
        one is stopped. The executions that the stopped one invoked are stopped too. `by` is who asked, for the audit log; None writes
        nothing there."""
        execution = found(self.engine.store, arn).id
        done = await self.engine.stop(execution, error, notes=self._did(by, "stop", execution, "stopped"))
        return {"StopTimestamp": wire.seconds(done.header.ended_at or self.engine.clock.now())}

    # --- callbacks

    async def succeed_callback(self, callback: str, result: bytes, by: Actor | None = None) -> Wire:
        """SendDurableExecutionCallbackSuccess. The handler gets `result` as text, or None if it is empty. `by` is who asked, for the audit
        log. Raises InvalidParameter if `result` has more than 1 MB or the callback id is not valid, CallbackNotFound if there is no such
        callback, and CallbackClosed if the callback has ended already."""
        on = self._check_callback(callback)
        if len(result) > MAX_CALLBACK_BYTES:
            raise InvalidParameter(f"Result: must have at most {MAX_CALLBACK_BYTES} bytes, and has {len(result)}.")
        notes = self._did(by, "callback", on, "succeeded")
        await self.engine.answer(callback, text_of(result, "Result") if result else None, notes=notes)
        return _ACCEPTED

    async def fail_callback(self, callback: str, error: Failure, by: Actor | None = None) -> Wire:
        """SendDurableExecutionCallbackFailure: the handler gets `error`. `by` is who asked, for the audit log. Raises InvalidParameter if
        the callback id is not valid, CallbackNotFound if there is no such callback, and CallbackClosed if the callback has ended
        already."""
        on = self._check_callback(callback)
        await self.engine.answer(callback, error=error, notes=self._did(by, "callback", on, "failed"))
        return _ACCEPTED

    async def heartbeat_callback(self, callback: str) -> Wire:
        """SendDurableExecutionCallbackHeartbeat: the heartbeat timeout of the callback begins again."""
        self._check_callback(callback)
        await self.engine.heartbeat(callback)
        return _ACCEPTED

    def _check_callback(self, callback: str) -> str:
        """The id of the execution to which a callback id belongs. Raises InvalidParameter if the store did not make the callback id."""
        try:
            return self._seal.callback_target(checks.callback_id(callback))[0]
        except HoldfastError:
            raise InvalidParameter("Invalid callback id") from None

    def _did(self, by: Actor | None, what: str, on: str, outcome: str) -> Notes:
        return () if by is None else by.did(what, on, outcome, self.engine.clock.now())

    # --- functions

    def get_function(self, name: str, qualifier: str | None, *, values: bool = True) -> Wire:
        """GetFunction. If `values` is False, an error stands in place of the function's environment variables."""
        asked = checks.function_reference(name, qualifier)
        one = self.lookup.find(asked)
        shown: Wire = {"Configuration": configuration(one, asked.arn, values=values), "Code": dict(one.code)}
        if one.tags:
            shown["Tags"] = dict(one.tags)
        return shown

    def get_function_configuration(self, name: str, qualifier: str | None, *, values: bool = True) -> Wire:
        """GetFunctionConfiguration. If `values` is False, an error stands in place of the function's environment variables."""
        asked = checks.function_reference(name, qualifier)
        return configuration(self.lookup.find(asked), asked.arn, values=values)

    def list_functions(self, versions: str | None, start: str | None, most: int | None, *, values: bool = True) -> Wire:
        """ListFunctions: each function once, or with `versions` ALL each version of each function. `start` is the marker that the page
        before gave. If `values` is False, an error stands in place of environment variables."""
        if versions is None:
            named = [checks.FunctionReference(name, None) for name in dict.fromkeys(one.name for one in self.lookup.all())]
            shown = [configuration(self.lookup.find(one), one.arn, values=values) for one in named]
        else:
            checks.one_of("FunctionVersion", versions, ("ALL",))
            shown = _versions(self.lookup.all(), values=values)
        return page("Functions", shown, start, most)

    def list_versions(self, function: str, start: str | None, most: int | None, *, values: bool = True) -> Wire:
        """ListVersionsByFunction. `start` is the marker that the page before gave. If `values` is False, an error stands in
        place of environment variables."""
        asked = checks.function_reference(function, None)._replace(qualifier=None)
        self.lookup.find(asked)
        found = [one for one in self.lookup.all() if one.name == asked.name]
        return page("Versions", _versions(found, values=values), start, most)

    # --- operations that AWS does not have

    async def start(
        self,
        function: str,
        qualifier: str | None,
        payload: bytes,
        *,
        name: str | None = None,
        tenant: str | None = None,
        timeout_seconds: int | None = None,
        retention_days: int | None = None,
    ) -> str:
        """Start an execution and return its ARN. A timeout or a retention that is given replaces that of the function. A timeout above
        MAX_TIMEOUT_SECONDS is lowered to it. Clients of SAM's emulator use this. Raises InvalidParameter if the function is not durable, or
        if a value is not allowed."""
        one = self.lookup.draw(checks.function_reference(function, qualifier))
        if one.terms is None:
            raise InvalidParameter(f"Function {one.name} is not durable.")
        timeout = None if timeout_seconds is None else min(timeout_seconds, MAX_TIMEOUT_SECONDS)
        terms = changed_terms(one.terms, timeout, retention_days)
        checked_name = None if name is None else checks.execution_name(name)
        checked_tenant = None if tenant is None else checks.tenant_id(tenant)
        text = payload_text(payload, SYNC_BYTES)
        header = await self._invoking.start(one, text, name=checked_name, tenant=checked_tenant, terms=terms)
        return arn_of(header)

    def trouble(self) -> str | None:
        """Why the store cannot be written at the moment; None if it can."""
        trouble = self.engine.health.trouble
        return None if trouble is None else str(trouble)

    def execution(self, arn: str) -> Execution:
        """The execution of an ARN. Raises ExecutionNotFound if there is none, and InvalidParameter if the text is not such an ARN."""
        return found(self.engine.store, arn)


def _versions(found: Sequence[FoundFunction], *, values: bool) -> list[Wire]:
    return [configuration(one, checks.function_arn(one.name, one.version), values=values) for one in found]
