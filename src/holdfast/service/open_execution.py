"""One execution of an open engine: its result, its history, and what can be done to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import Failure
from holdfast.service.describing import Description, arn_of, check_will_end, describe, history_of, result_of
from holdfast.service.exporting import exported


class OpenExecution:
    """One execution of an open engine."""

    def __init__(self, engine: Engine, header: Execution, functions: Mapping[tuple[str, str], DurableFunction]) -> None:
        self._engine = engine
        self._functions = functions
        self.id = header.id
        self.name = header.name
        self.arn = arn_of(header)
        self._header_then = header

    async def result(self) -> Any:
        """Wait for its result; an unsuccessful ending is raised. A class that its handler's return annotation names is given back."""
        check_will_end(self._engine.store, self._header_then)
        header, payload = await self._engine.ending(self.id)
        function, result = self._functions.get((header.function, header.version)), result_of(self._engine.store, header, payload)
        return result if function is None else function.typed(result)

    async def status(self) -> ExecutionStatus:
        """Where it stands."""
        return self._header().status

    async def describe(self) -> Description:
        """Everything about it, and why it waits."""
        header = self._header()
        hosted = self._engine.registry.get(header.function, header.version) is not None
        return describe(self._engine.store, header, hosted)

    async def history(self, *, include_data: bool = True) -> list[dict[str, Any]]:
        """All its events."""
        return history_of(self._engine.store, self._header(), include_data=include_data)

    async def export(self, *, include_data: bool = True) -> dict[str, Any]:
        """All of it as one JSON document, payloads in plain text: for `Client.import_execution` and `holdfast.replay`."""
        found = self._engine.store.snapshot(self._header().id)
        if found is None:
            raise ExecutionNotFound(f"There is no execution {self.id} any more.")
        return exported(found, self._engine.clock.now(), include_data=include_data)

    async def stop(self, message: str | None = None, error_type: str | None = None, *, cascade: bool = True) -> None:
        """End it from outside, with what it invoked unless `cascade` is off."""
        await self._engine.stop(self.id, Failure(message=message, type=error_type), cascade=cascade)

    async def release(self) -> None:
        """Let it run again after it was quarantined."""
        await self._engine.release(self.id)

    def _header(self) -> Execution:
        header = self._engine.store.find(self.id)
        if header is None:
            raise ExecutionNotFound(f"There is no execution {self.id} any more.")
        return header
