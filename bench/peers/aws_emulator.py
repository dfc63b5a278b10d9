"""The official emulator's web server in a process of its own, on SQLite, and the endpoint at which it finds its handlers.

The emulator runs no functions: it calls the Invoke API of an endpoint. For users that endpoint is SAM's containers. Here it is as light
as possible: it sends the event to a free warm process and returns the answer.
The processes run the same handlers as ours (bench/http_functions) and send their checkpoints to the emulator with boto3, as on AWS.

    python -m bench.peers.aws_emulator      one handler process: an event per line in, an answer per line out
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any, Final

from bench.http_load import WORKERS, steps_per_second
from bench.terms import Sizes

_PATIENCE: Final = 200
_LOOK_SECONDS: Final = 0.1
_LINE_BYTES: Final = 16 * 1024 * 1024


def http(folder: Path, sizes: Sizes) -> dict[str, list[float]]:
    """Steps per second, with the same load driver as for Holdfast."""
    with emulator(folder) as port:
        steps_per_second(port, min(2 * WORKERS, sizes.http_executions), 2)
        return {"HTTP steps": [steps_per_second(port, sizes.http_executions, sizes.http_steps) for _ in range(sizes.few)]}


@contextmanager
def emulator(folder: Path) -> Iterator[int]:
    """The emulator and its handlers; its port."""
    port, ready = free_port(), threading.Event()
    handlers = Handlers(port)
    threading.Thread(target=lambda: asyncio.run(handlers.serve(ready)), daemon=True).start()
    ready.wait()
    served = "from aws_durable_execution_sdk_python_testing.cli import main; main()"
    command = [sys.executable, "-c", served, "start-server", "--host", "127.0.0.1", "--port", str(port), "--log-level", "ERROR"]
    where = [
        "--lambda-endpoint",
        f"http://127.0.0.1:{handlers.port}",
        "--store-type",
        "sqlite",
        "--store-path",
        str(folder / "emulator.db"),
    ]
    process = subprocess.Popen([*command, *where], env=environment(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield port
    finally:
        process.kill()
        process.wait()
        handlers.kill()


def environment(emulator: int) -> dict[str, str]:
    """The environment of both sides: the address of the service, and keys that no server checks."""
    aws = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-west-2", "AWS_REGION": "us-west-2"}
    return {**os.environ, **aws, "AWS_ENDPOINT_URL_LAMBDA": f"http://127.0.0.1:{emulator}"}


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(_PATIENCE):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            sleep(_LOOK_SECONDS)
    raise RuntimeError("the emulator did not start")


class Handlers:
    """An Invoke API with warm processes behind it."""

    def __init__(self, emulator: int) -> None:
        self.port = 0
        self._emulator = emulator
        self._free: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()
        self._all: list[asyncio.subprocess.Process] = []

    async def serve(self, ready: threading.Event) -> None:
        piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "limit": _LINE_BYTES}
        for _ in range(WORKERS):
            command = (sys.executable, "-m", "bench.peers.aws_emulator")
            process = await asyncio.create_subprocess_exec(*command, env=environment(self._emulator), **piped)
            self._all.append(process)
            await self._free.put(process)
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            if "100-continue" in head:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = int(head.partition("content-length:")[2].split("\r\n")[0])
            said = await self._run(await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))

    async def _run(self, event: bytes) -> bytes:
        process = await self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(event + b"\n")
        said = await process.stdout.readline()
        self._free.put_nowait(process)
        return said.rstrip()

    def kill(self) -> None:
        for process in self._all:
            if process.returncode is None:
                process.kill()


def handler_process() -> None:
    """Answer events until the input ends."""
    logging.disable(logging.WARNING)
    from bench.http_functions.app import in_sequence

    for number, line in enumerate(sys.stdin):
        context = SimpleNamespace(aws_request_id=f"bench-{number}", invoked_function_arn="", tenant_id=None)
        print(json.dumps(in_sequence(json.loads(line), context)), flush=True)


if __name__ == "__main__":
    handler_process()
