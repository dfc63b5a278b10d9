"""The program of a tool's process: it imports one file, then makes one call after the other.

Started as `python -I -B -u tool_main.py FD ROOT`, with only a few environment variables (tool_process.py). Over the socket FD the runner
sends the file to import, then calls with their secrets. When the runner dies, the socket closes, and the process ends with every process of
its group.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # in isolated mode Python finds only site-packages, so the runner passes the folder of its own code
    sys.path.insert(next((at for at, path in enumerate(sys.path) if "-packages" in path), len(sys.path)), sys.argv[2])

import asyncio
import importlib.util
import inspect
import json
import os
import queue
import signal
import socket
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.hosts.toolhost.tool_call import ToolCall, ToolRefused, Verdict
from holdfast.hosts.toolhost.tool_frames import ToolFrame, packed, receive
from holdfast.model.clock import monotonic

_LONGEST_MESSAGE = 2000


def main(fd: int) -> None:
    """Import the tool's file, then make the calls that the runner sends, until the runner closes the socket. If the import fails, report
    that and return."""
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    frames: queue.SimpleQueue[ToolFrame] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sock, frames), daemon=True).start()
    begin = frames.get()
    try:
        tool = _tool(_imported(Path(begin["file"]), begin["paths"]), begin["tool"])
    except BaseException as error:
        sock.sendall(packed({"op": "broken", "type": type(error).__name__, "message": _import_trouble(error)}))
        return
    sock.sendall(packed({"op": "ready"}))
    with asyncio.Runner() as runner:
        while True:
            sock.sendall(_answer(runner, tool, frames.get(), begin["max_result_bytes"]))


def _listen(sock: socket.socket, frames: queue.SimpleQueue[ToolFrame]) -> None:
    """Put the frames that arrive into `frames`. When the socket closes, kill this process and its group. This runs in a thread, so that the
    runner's death ends the process also in the middle of a call."""
    while (frame := receive(sock)) is not None:
        frames.put(frame)
    os.killpg(0, signal.SIGKILL)


def _imported(file: Path, paths: list[str]) -> ModuleType:
    sys.path[:0] = [path for path in (str(file.parent), *paths) if path not in sys.path]
    name = f"_{file.stem}" if file.stem in sys.modules or file.stem in sys.stdlib_module_names else file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _tool(module: ModuleType, name: str) -> Any:
    for value in vars(module).values():
        if getattr(value, "holdfast_tool", None) == name:
            return value
    raise LookupError(f"{module.__name__} has no tool named {name!r} once it is imported.")


def _answer(runner: asyncio.Runner, tool: Any, frame: ToolFrame, cap: int) -> bytes:
    about = frame["call"]
    call = ToolCall(**about, deadline=monotonic() + frame["seconds"], secrets=frame["secrets"])
    function = tool.function if frame["op"] == "call" else tool.reconciler
    try:
        if inspect.iscoroutinefunction(function):
            value = runner.run(_awaited(function, call, frame["arguments"]))
        else:
            try:
                value = function(call, **frame["arguments"])
            finally:
                call.close()
        return _done(value, cap)
    except Exception as error:
        return packed({"op": "failed", **_told(error)})


async def _awaited(function: Any, call: ToolCall, arguments: dict[str, Any]) -> Any:
    try:
        return await function(call, **arguments)
    finally:
        await call.aclose()


def _done(value: Any, cap: int) -> bytes:
    """The frame for what a tool returned. `cap` is the largest allowed result, in bytes of JSON. A result that cannot be written as JSON,
    or is larger, is reported as `unfit`: the call happened, but its result is not passed on."""
    verdict = None
    if isinstance(value, Verdict):
        verdict, value = value.word, value.result
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return packed({"op": "unfit", "message": f"The tool returned what cannot be written as JSON: {error}"[:_LONGEST_MESSAGE]})
    if len(text) > cap:
        return packed({"op": "unfit", "message": f"The tool returned {len(text):,} bytes of JSON; {cap:,} are allowed."})
    return packed({"op": "done", "result": value, "verdict": verdict})


def _told(error: Exception) -> ToolFrame:
    """The frame of an exception. `known` is False after a timeout, a ConnectionError of Python, a connection that httpx lost, or an HTTP
    status 5xx: what the tool wanted to do may have happened all the same. After any other exception `known` is True: the call failed. That
    includes errors of httpx before it had a connection."""
    told: ToolFrame = {"type": type(error).__name__, "message": str(error)[:_LONGEST_MESSAGE], "code": "tool_failed", "known": True}
    told["where"] = _where(error)
    if isinstance(error, ToolRefused):
        return {**told, "code": error.code, "retry_after_seconds": error.retry_after_seconds}
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(error, httpx.HTTPStatusError):
        return {**told, **_of_status(error.response.status_code), "retry_after": error.response.headers.get("retry-after")}
    if httpx is not None and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return {**told, "code": "tool_unavailable"}
    if isinstance(error, TimeoutError) or (httpx is not None and isinstance(error, httpx.TimeoutException)):
        return {**told, "code": "tool_timeout", "known": False}
    if isinstance(error, ConnectionError) or (httpx is not None and isinstance(error, httpx.TransportError)):
        return {**told, "code": "tool_unavailable", "known": False}
    return told


def _of_status(status: int) -> ToolFrame:
    """The members of the frame that depend on an HTTP status with which a server answered the tool. After a 5xx status that server may have
    done what the tool asked for (`known` is False). Any other status means that it refused."""
    if status >= 500:
        return {"code": "tool_unavailable", "known": False}
    return {"code": {401: "access_denied", 403: "access_denied", 429: "rate_limited"}.get(status, "tool_failed")}


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    last = own[0] if own else None
    return f"{Path(last.filename).name}:{last.lineno}" if last else ""


def _import_trouble(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    place = f" ({Path(where.filename).name}:{where.lineno})" if where else ""
    return f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE] + place


if __name__ == "__main__":
    main(int(sys.argv[1]))
