"""WorkerContext: the object through which a body calls tools, runs steps, asks persons and stores artifacts. The body asks the runner for
each of these; only pure tools and the functions of steps run in the body itself. `now`, `uuid` and `random` give the same values when the
same attempt is replayed.

An `async def` body awaits these calls. In a `def` body the same calls block until the value has arrived. Names and arguments are the same.
"""

from __future__ import annotations

import io
import os
import random
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import IO, Any, Protocol, cast

from holdfast.contract.terms import Contract
from holdfast.model.clock import monotonic
from holdfast.workers.body.errors import ToolError, WorkerError, as_frame
from holdfast.workers.body.runner_connection import Asking, AsyncAsking, BodyFrame, Received
from holdfast.workers.tools.pure import PURE, call_pure
from holdfast.workers.tools.seam import ToolFailed

_FEW_BYTES = 1 << 16


class Tools(Protocol):
    """The tools that the contract allows. Call one by its name, with keyword arguments: `ctx.tools.fetch_url(url=...)`.

    A call of a tool that the contract or the request does not allow raises WorkerError with the code `tool_not_allowed`. If the body runs
    again in the same attempt, a call gets its recorded result or error. In a later attempt only calls that change the world get their
    recorded result; reads, and calls that failed, are made again.

    A call without a key is found by its number among the calls of the same tool without a key. If the order of these calls may change, give
    each call a `key=`, by which it is found. Two calls of one tool with the same key are one call.
    """

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
    """The second argument of a worker's body. An `async def` body awaits each call of a tool, `step`, `ask`, `artifact` and `open`; in a
    `def` body these calls block until the value has arrived.

    If the runner refuses such a call, or the call fails, it raises ToolError. If the values that the body sends are not JSON, the call
    raises PayloadNotJson; in a sandbox, if they have more than 1 MiB as JSON, PayloadTooLarge.
    """

    contract: Contract
    """The worker's contract, with the limits of this run."""

    def __init__(self, asking: Asking | AsyncAsking, run: BodyFrame, contract: Contract) -> None:
        self.contract = contract
        self._asking = asking
        self._asking.ends_at = monotonic() + run["remaining"]
        self._seed = run["seed"]
        self._asking.now = run["now"]

    @cached_property
    def tools(self) -> Tools:
        """The tools that the contract allows, by name: `ctx.tools.fetch_url(url=...)`."""
        return _Tools(self._tool)

    def progress(self, data: Any) -> None:
        """Send progress to observers and followers of the run. `data` is any JSON value. This also starts the body's idle timeout again
        from 0. When the attempt has reported progress as often as the operator allows, further reports are dropped."""
        self._asking.tell({"op": "progress", "data": data})

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Write a line to the run's log. `fields` are further members of the line. Fields with the names `event` and `attempt` are dropped.
        If `fields` have more than 16 KiB as JSON, all are dropped, and the line has `truncated: true`. A message is cut off after 4,000
        characters. When the attempt has as many lines as the operator allows, further lines are dropped."""
        self._asking.tell({"op": "log", "level": level, "message": message, "fields": fields})

    def now(self) -> datetime:
        """The runner's time when it recorded its latest answer to this body, in UTC; before the first answer, the end of the wait before
        this attempt, or the start of the run if there was no wait. A replay of the attempt gets the same times."""
        return datetime.fromtimestamp(self._asking.now / 1000, UTC)

    @cached_property
    def _chance(self) -> random.Random:
        return random.Random(self._seed)

    def uuid(self) -> uuid.UUID:
        """A random UUID. A replay of the attempt gets the same ids; another attempt gets other ids."""
        return uuid.UUID(bytes=self._chance.randbytes(16), version=4)

    def random(self) -> float:
        """A random number: at least 0, less than 1. A replay of the attempt gets the same numbers; another attempt gets other numbers."""
        return self._chance.random()

    def remaining(self) -> timedelta:
        """How long until the time limit ends this attempt; zero if the limit has passed. A replay gets other values."""
        return timedelta(seconds=max(0.0, self._asking.ends_at - monotonic()))

    # --- requests to the runner; the subclasses implement how the body waits for the answer

    def step(self, func: Callable[[], Any], name: str | None = None) -> Any:
        """Run `func`, record its result, and return it. A replay of this attempt returns the recorded result and does not run `func` again;
        another attempt runs `func` again.

        `name` is the step's name in the history; without it, the name of `func`. If `func` raises, the error is recorded, and this call
        raises ToolError, in a replay too. In an `async def` body `func` may be an `async def`.
        """
        raise NotImplementedError

    def ask(self, question: str, *, schema: Mapping[str, Any] | None = None) -> Any:
        """Ask a person a question, and return the answer. `schema` is a JSON Schema for the answer; None accepts any JSON value.

        While the run waits, the body is ended. When the question is decided or has expired, the body runs again from its start; calls that
        are recorded return their recorded results. Raises ToolError with the code `approval_rejected` if the person refuses to answer, and
        with `approval_expired` if no answer comes in time.
        """
        return self._value({"op": "ask", "question": question, "schema": schema})

    def artifact(self, name: str, data: bytes | str | IO[bytes], *, media_type: str = "application/octet-stream") -> Any:
        """Store a large value as an artifact, and return the reference to it, a JSON object. A `str` is stored as UTF-8; of an open file,
        everything from its current position to its end is stored. Raises ToolError with the code `artifact_too_large` if the attempt stores
        too many artifacts or bytes."""
        return self._value({"op": "artifact", "name": name, "media_type": media_type, "fd": True}, _file_of(data))

    def open(self, reference: Mapping[str, Any]) -> Any:
        """Open an artifact, and return a binary file for reading. `reference` is an object that `artifact` returned, or such an object
        under the key `$artifact`. Raises WorkerError with the code `artifact_not_found` if `reference` has no artifact's id, if the tenant
        has no such artifact, or if its bytes are missing or were changed."""
        raise NotImplementedError

    def _tool(self, name: str, arguments: dict[str, Any], key: str | None) -> Any:
        raise NotImplementedError

    def _value(self, frame: BodyFrame, fd: int | None = None) -> Any:
        raise NotImplementedError

    def _local(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a pure tool here, where the body runs. Raises WorkerError if the contract or the request does not allow the tool, and
        ToolError if the call fails. (For all other tools the runner checks what is allowed.)"""
        if all(grant.name != name for grant in self.contract.tools):
            raise WorkerError("tool_not_allowed", f"The contract or the request does not allow the tool {name!r}.", retryable=False)
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

    def _value(self, frame: BodyFrame, fd: int | None = None) -> Any:
        try:
            return self._asking.ask(frame, fd)[0].get("result")
        finally:
            _close(fd)

    def step(self, func: Callable[[], Any], name: str | None = None) -> Any:
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
        return _opened(self._asking.ask({"op": "open", "artifact_id": _id_of(reference)}))


class AsyncContext(WorkerContext):
    """The context of an `async def` body."""

    _asking: AsyncAsking

    def __init__(self, asking: AsyncAsking, run: BodyFrame, contract: Contract) -> None:
        super().__init__(asking, run, contract)
        self._writes = frozenset(run.get("writes", ()))
        self._open: set[str | None] = set()
        """The tools that change the world and have a call under way without a key. A second call of such a tool without a key is
        refused."""

    def _tool(self, name: str, arguments: dict[str, Any], key: str | None) -> Awaitable[Any]:
        if name in PURE:
            return _at_once(lambda: self._local(name, arguments))
        alone = key is None and name in self._writes
        if alone and name in self._open:
            raise WorkerError(
                "tool_failed", f"A call of {name} without a `key=` is under way. Await it first, or give each call its own `key=`."
            )
        answer = self._value({"op": "tool", "tool": name, "arguments": arguments, "key": key}, ends=name if alone else None)
        if alone:
            self._open.add(name)
        return answer

    def _value(self, frame: BodyFrame, fd: int | None = None, ends: str | None = None) -> Awaitable[Any]:
        asked = self._asking.ask(frame, fd)

        async def answer() -> Any:
            try:
                return (await asked)[0].get("result")
            finally:
                self._open.discard(ends)
                _close(fd)

        return answer()

    def step(self, func: Callable[[], Any], name: str | None = None) -> Awaitable[Any]:
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
        raise WorkerError("artifact_not_found", "ctx.open needs a reference: an object whose `artifact_id` is a text.", retryable=False)
    return str(found)


def _opened(answer: Received) -> IO[bytes]:
    descriptor = answer[1]
    if descriptor is None:
        raise WorkerError("artifact_not_found", "The runner's answer to ctx.open came without a file.", retryable=False)
    return os.fdopen(descriptor, "rb")


def _file_of(data: bytes | str | IO[bytes]) -> int:
    """The descriptor of a temporary file that contains the data, open for reading. The file's name is removed already. The caller must
    close the descriptor."""
    source = io.BytesIO(data.encode() if isinstance(data, str) else data) if isinstance(data, bytes | str) else data
    with tempfile.NamedTemporaryFile() as file:
        while chunk := source.read(_FEW_BYTES):
            file.write(chunk)
        file.flush()
        return os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)
