"""WorkerContext: everything that a body may use. Every effect is a request to the runner; the rest gives the same values on every replay.

`async def` bodies await every call that asks the runner; `def` bodies get the value at once. The names and the arguments are the same.
"""

from __future__ import annotations

import io
import os
import random
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import IO, Any, Protocol, cast

from holdfast.contract.terms import Contract
from holdfast.model.clock import monotonic
from holdfast.workers.body.errors import ToolError, WorkerError, as_frame
from holdfast.workers.body.links import Asking, AsyncAsking, Frame, Received
from holdfast.workers.tools.pure import PURE, call_pure
from holdfast.workers.tools.seam import ToolFailed

_FEW_BYTES = 1 << 16


class Tools(Protocol):
    """The tools the contract allows, by name: `ctx.tools.fetch_url(url=...)`. `key=` names a call whose order may change."""

    def __getattr__(self, name: str) -> Callable[..., Any]: ...
    def __getitem__(self, name: str) -> Callable[..., Any]: ...


class _Tools:
    def __init__(self, call: Callable[[str, dict[str, Any], str | None], Any]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def tool(*, key: str | None = None, **arguments: Any) -> Any:
            return self._call(name, arguments, key)

        return tool

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return cast("Callable[..., Any]", getattr(self, name))


class WorkerContext:
    """What a worker's body may use. An `async def` body awaits `tools`, `step`, `ask`, `artifact` and `open`; a `def` body does not."""

    contract: Contract

    def __init__(self, asking: Asking | AsyncAsking, run: Frame, contract: Contract) -> None:
        self.contract = contract
        self._asking = asking
        self._asking.ends_at = monotonic() + run["remaining"]
        self._seed = run["seed"]
        self._asking.now = run["now"]

    @cached_property
    def tools(self) -> Tools:
        """The tools the contract allows, by name."""
        return _Tools(self._tool)

    def progress(self, data: Any) -> None:
        """Report progress to observers and followers; it also shows that the body is not idle."""
        self._asking.tell({"op": "progress", "data": data})

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Write a structured line to the run's log."""
        self._asking.tell({"op": "log", "level": level, "message": message, "fields": fields})

    def now(self) -> datetime:
        """The service's time at the latest answer: the same on every replay."""
        return datetime.fromtimestamp(self._asking.now / 1000, UTC)

    @cached_property
    def _chance(self) -> random.Random:
        return random.Random(self._seed)

    def uuid(self) -> uuid.UUID:
        """A unique id; the same on every replay."""
        return uuid.UUID(bytes=self._chance.randbytes(16), version=4)

    def random(self) -> float:
        """A number from 0 up to 1; the same on every replay."""
        return self._chance.random()

    def remaining(self) -> float:
        """Seconds until this attempt is ended. Differs between replays, as time does."""
        return max(0.0, self._asking.ends_at - monotonic())

    # --- requests to the runner; the subclasses say how answers arrive

    def step(self, func: Callable[[], Any], name: str | None = None) -> Any:
        """Run `func` once and record its result; a replay returns the result without running `func`."""
        raise NotImplementedError

    def ask(self, question: str, *, schema: Mapping[str, Any] | None = None) -> Any:
        """Ask a person. The run waits without a process, and goes on from here with the answer."""
        return self._value({"op": "ask", "question": question, "schema": schema})

    def artifact(self, name: str, data: bytes | str | IO[bytes], *, media_type: str = "application/octet-stream") -> Any:
        """Store a large value as an artifact; returns its reference."""
        return self._value({"op": "artifact", "name": name, "media_type": media_type, "fd": True}, _file_of(data))

    def open(self, reference: Mapping[str, Any]) -> Any:
        """The bytes behind a reference, as an open file."""
        raise NotImplementedError

    def _tool(self, name: str, arguments: dict[str, Any], key: str | None) -> Any:
        raise NotImplementedError

    def _value(self, frame: Frame, fd: int | None = None) -> Any:
        raise NotImplementedError

    def _local(self, name: str, arguments: dict[str, Any]) -> Any:
        """A pure tool, if the contract allows it. The runner checks all other tools."""
        if all(grant.name != name for grant in self.contract.tools):
            raise WorkerError("tool_not_allowed", f"The contract does not allow the tool {name!r}.", retryable=False)
        try:
            return call_pure(name, arguments)
        except ToolFailed as failed:
            raise ToolError(failed.code, failed.message, details=failed.details) from None


class BlockingContext(WorkerContext):
    """The context of a `def` body."""

    _asking: Asking

    def _tool(self, name: str, arguments: dict[str, Any], key: str | None) -> Any:
        if name in PURE:
            return self._local(name, arguments)
        return self._value({"op": "tool", "tool": name, "arguments": arguments, "key": key})

    def _value(self, frame: Frame, fd: int | None = None) -> Any:
        try:
            return self._asking.ask(frame, fd)[0].get("result")
        finally:
            _close(fd)

    def step(self, func: Callable[[], Any], name: str | None = None) -> Any:
        """Run `func` once and record its result."""
        answer, _ = self._asking.ask({"op": "step_begin", "name": _step_name(func, name)})
        if answer["op"] != "step_run":
            return answer.get("result")
        try:
            told = {"result": func()}
        except Exception as error:
            told = {"error": as_frame(error)}
            self._asking.again({"op": "step_end", "id": answer["id"], **told})
            raise
        return self._asking.again({"op": "step_end", "id": answer["id"], **told})[0].get("result")

    def open(self, reference: Mapping[str, Any]) -> Any:
        """The bytes behind a reference, as an open file."""
        return _opened(self._asking.ask({"op": "open", "artifact_id": _id_of(reference)}))


class AsyncContext(WorkerContext):
    """The context of an `async def` body."""

    _asking: AsyncAsking

    def __init__(self, asking: AsyncAsking, run: Frame, contract: Contract) -> None:
        super().__init__(asking, run, contract)
        self._writes = frozenset(run.get("writes", ()))
        self._open: set[str | None] = set()
        """Writing tools with a call under way that has no key: the next such call must wait, or have a key."""

    def _tool(self, name: str, arguments: dict[str, Any], key: str | None) -> Awaitable[Any]:
        if name in PURE:
            return _at_once(lambda: self._local(name, arguments))
        alone = key is None and name in self._writes
        if alone and name in self._open:
            raise WorkerError("tool_failed", f"Calls of {name} that run side by side need a `key=` each: their order may change.")
        answer = self._value({"op": "tool", "tool": name, "arguments": arguments, "key": key}, ends=name if alone else None)
        if alone:
            self._open.add(name)
        return answer

    def _value(self, frame: Frame, fd: int | None = None, ends: str | None = None) -> Awaitable[Any]:
        asked = self._asking.ask(frame, fd)

        async def answer() -> Any:
            try:
                return (await asked)[0].get("result")
            finally:
                self._open.discard(ends)
                _close(fd)

        return answer()

    def step(self, func: Callable[[], Any], name: str | None = None) -> Awaitable[Any]:
        """Run `func` once and record its result; `func` may be an `async def`."""
        asked = self._asking.ask({"op": "step_begin", "name": _step_name(func, name)})

        async def run() -> Any:
            answer, _ = await asked
            if answer["op"] != "step_run":
                return answer.get("result")
            try:
                result = func()
                told = {"result": await result if isinstance(result, Awaitable) else result}
            except Exception as error:
                told = {"error": as_frame(error)}
                await self._asking.again({"op": "step_end", "id": answer["id"], **told})
                raise
            return (await self._asking.again({"op": "step_end", "id": answer["id"], **told}))[0].get("result")

        return run()

    def open(self, reference: Mapping[str, Any]) -> Awaitable[Any]:
        """The bytes behind a reference, as an open file."""
        asked = self._asking.ask({"op": "open", "artifact_id": _id_of(reference)})

        async def answer() -> Any:
            return _opened(await asked)

        return answer()


def _step_name(func: Callable[[], Any], name: str | None) -> str:
    return name or str(getattr(func, "__name__", "step"))


async def _at_once(call: Callable[[], Any]) -> Any:
    return call()


def _id_of(reference: Mapping[str, Any]) -> str:
    inner = reference.get("$artifact", reference)
    found: Any = inner.get("artifact_id") if isinstance(inner, Mapping) else None
    if not isinstance(found, str):
        raise WorkerError("artifact_not_found", "ctx.open takes a reference: an object with an artifact_id.", retryable=False)
    return str(found)


def _opened(answer: Received) -> IO[bytes]:
    descriptor = answer[1]
    if descriptor is None:
        raise WorkerError("artifact_not_found", "The runner sent no file.", retryable=False)
    return os.fdopen(descriptor, "rb")


def _file_of(data: bytes | str | IO[bytes]) -> int:
    """An open temporary file with the data, without a name."""
    source = io.BytesIO(data.encode() if isinstance(data, str) else data) if isinstance(data, bytes | str) else data
    with tempfile.NamedTemporaryFile() as file:
        while chunk := source.read(_FEW_BYTES):
            file.write(chunk)
        file.flush()
        return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)
