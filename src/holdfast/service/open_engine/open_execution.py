"""OpenExecution: one execution of an open engine. Read its result and history, export it, stop it or release it. `input_text` makes the
text of the input that it is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.descriptions.executions import Description, arn_of, check_will_end, describe, failure_of
from holdfast.descriptions.history import HistoryEvent, events_of
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.exports.exporting import exported
from holdfast.model import codec
from holdfast.model.errors import ExecutionNotFound, PayloadNotJson
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.ids import Arn, checked_mention
from holdfast.model.operations import Failure
from holdfast.model.outside import Stopped
from holdfast.model.typed import Unwritable, without_models
from holdfast.store.seam import ExecutionStore


class OpenExecution:
    """One execution of an open engine. All methods raise `ExecutionNotFound` if the store does not have the execution any more."""

    id: str
    name: str
    """The name that its caller gave; the id if the caller gave none."""

    def __init__(self, engine: Engine, header: Execution, functions: Mapping[tuple[str, str], DurableFunction]) -> None:
        self._engine = engine
        self._functions = functions
        self.id = header.id
        self.name = header.name
        self._header_then = header

    @property
    def arn(self) -> str:
        """The ARN of the execution."""
        return arn_of(self._header_then)

    async def result(self) -> Any:
        """Wait until the execution has ended, and return its result. If another execution continues it, wait for that one, and return the
        result of that one. Raises `ExecutionFailed`, `ExecutionTimedOut` or `ExecutionStopped` if it did not succeed. Raises
        `ExecutionQuarantined` if it is quarantined. Raises `InvalidParameter` for an imported copy that was not closed. Raises
        `ExecutionNotFound` if the execution that continues it is not in this store. Raises `EngineClosed` if the engine closes first. If
        the return annotation of the handler names a dataclass or a pydantic model, the result is converted to it; a result that does not
        fit is returned as its JSON value, and a warning is logged."""
        check_will_end(self._engine.store, self._header_then)
        header, payload = await self._engine.ending(self.id)
        if header.status is not ExecutionStatus.SUCCEEDED:
            raise failure_of(self._engine.store, header, payload)
        function, result = self._functions.get((header.function, header.version)), None if payload is None else codec.loads(payload)
        return result if function is None else function.typed(result)

    async def status(self) -> ExecutionStatus:
        """The present status of the execution."""
        return self._header().status

    async def describe(self) -> Description:
        """A description of the execution. If it waits, the description says why."""
        header = self._header()
        hosted = self._engine.registry.get(header.function, header.version) is not None
        return describe(self._engine.store, header, hosted)

    async def history(self, *, include_data: bool = True) -> Sequence[HistoryEvent]:
        """All events of the execution, in order; `include_data=False` leaves inputs, results and errors out."""
        return events_of(self._engine.store, self._header(), include_data=include_data)

    async def export(self, *, include_data: bool = True) -> dict[str, Any]:
        """The execution as one JSON document, for `Client.import_execution` and `holdfast.replay`. Payloads are plain text in it. With
        `include_data=False` they are left out; then the document cannot be replayed."""
        found = self._engine.store.snapshot(self._header().id)
        if found is None:
            raise ExecutionNotFound(f"There is no execution {self.id} any more.")
        return exported(found, self._engine.clock.now(), include_data=include_data)

    async def stop(self, message: str | None = None, error_type: str | None = None, *, cascade: bool = True) -> Stopped:
        """Stop the execution, with this message and type as its error. With `cascade`, the executions below it are stopped too (runs of
        workers and pipelines are cancelled), except those that were invoked with `cascade=False`. If another execution continues this one,
        the other one is stopped instead. Returns the record of the execution, and whether this call stopped it. Raises `InvalidParameter`
        for an imported copy that was not closed."""
        return await self._engine.stop(self.id, Failure(message=message, type=error_type), cascade=cascade)

    async def release(self) -> Execution:
        """Let the execution run again. It must be quarantined, or wait for another try after its runners died; else this raises
        `InvalidParameter`. Returns its record."""
        return await self._engine.release(self.id)

    def _header(self) -> Execution:
        header = self._engine.store.find(self.id)
        if header is None:
            raise ExecutionNotFound(f"There is no execution {self.id} any more.")
        return header


def mentioned(store: ExecutionStore, execution: str) -> Execution:
    """The execution that an ARN or an id names. Raises ExecutionNotFound if there is none, and InvalidParameter if an ARN is not valid."""
    header = store.find(Arn.parse(execution).id if checked_mention(execution).startswith("arn:") else execution)
    if header is None:
        raise ExecutionNotFound(f"There is no execution {execution}.")
    return header


def input_text(input: object) -> str:
    """The input of an execution as JSON text. Raises PayloadNotJson if it cannot be written as JSON, and InvalidParameter if a text in it
    is not valid Unicode."""
    try:
        plain = without_models(input)
    except (Unwritable, RecursionError) as error:
        raise PayloadNotJson(f"The input cannot be written as JSON: {error}.") from None
    return codec.dumps(plain)
