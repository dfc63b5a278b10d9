"""A minimal client: checkpoints over plain connections, as cheap as Python allows, in a process of its own.

Each connection has its own execution, whose invocation gives its token to this client (`lends` of bench/http_functions). The client
writes one step per checkpoint, each after the previous one was acknowledged: START and SUCCEED with about 100 bytes, as the official SDK
sends them.

    python -m bench.http_raw PORT PLACE CONNECTIONS CHECKPOINTS      prints seconds, and seconds of CPU, as JSON
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Final
from urllib.parse import quote

import uvloop

from bench.http_load import asked
from bench.terms import PAYLOAD

WARM_CHECKPOINTS: Final = 50
_TOKEN: Final = b'"CheckpointToken":"'
_UPDATES: Final = (
    '[{"Id":"%s","Type":"STEP","SubType":"Step","Action":"START"},{"Id":"%s","Type":"STEP","SubType":"Step","Action":"SUCCEED","Payload":'
    + json.dumps(json.dumps(PAYLOAD)).replace("%", "%%")
    + "}]"
)


class Writer(asyncio.Protocol):
    """One connection, one execution."""

    transport: asyncio.Transport

    def __init__(self, arn: str, token: str) -> None:
        self._head = (
            f"POST /2025-12-01/durable-executions/{quote(arn, safe='')}/checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._token = token
        self._number = 0
        self._until = 0
        self._got = b""
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one
        self.transport = transport

    async def write(self, checkpoints: int) -> None:
        """Write this many checkpoints, one after the other."""
        self._done = asyncio.get_running_loop().create_future()
        self._until = self._number + checkpoints
        self._next()
        await self._done

    def _next(self) -> None:
        self._number += 1
        name = f"step-{self._number}"
        body = f'{{"CheckpointToken":"{self._token}","ClientToken":"{name}","Updates":{_UPDATES % (name, name)}}}'
        self.transport.write(f"{self._head}{len(body)}\r\n\r\n{body}".encode())

    def data_received(self, data: bytes) -> None:
        got = self._got + data
        head = got.find(b"\r\n\r\n")
        if head < 0 or len(got) < head + 4 + _length(got, head):
            self._got = got
            return
        self._got = b""
        assert self._done is not None
        at = got.find(_TOKEN)
        if not got.startswith(b"HTTP/1.1 200") or at < 0:
            self._done.set_exception(RuntimeError(f"a checkpoint was refused: {got[:500]!r}"))
            return
        self._token = got[at + len(_TOKEN) : got.index(b'"', at + len(_TOKEN))].decode()
        if self._number < self._until:
            self._next()
        else:
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(RuntimeError("the server hung up"))


def _length(got: bytes, head: int) -> int:
    at = got.find(b"content-length: ", 0, head) + 16
    return int(got[at : got.index(b"\r", at)])


async def writers(port: int, place: Path, functions: list[str], connections: int) -> list[tuple[Writer, asyncio.StreamWriter]]:
    """Connections, each with an invocation that waits until it is told to end."""
    lent: asyncio.Queue[tuple[str, str, asyncio.StreamWriter]] = asyncio.Queue()

    async def lend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arn, token = json.loads(await reader.readline())
        await lent.put((arn, token, writer))

    found = []
    lending = await asyncio.start_unix_server(lend, place)
    for number in range(connections):
        function = functions[number % len(functions)]
        start = {"FunctionName": function, "FunctionQualifier": "$LATEST", "Input": json.dumps({"place": str(place)})}
        await asyncio.to_thread(asked, port, "POST", "/start-durable-execution", start)
    for _ in range(connections):
        arn, token, back = await lent.get()
        writer = Writer(arn, token)
        await asyncio.get_running_loop().create_connection(lambda made=writer: made, "127.0.0.1", port)  # type: ignore[misc]
        found.append((writer, back))
    lending.close()
    return found


async def main(port: int, place: Path, functions: list[str], connections: int, checkpoints: int) -> tuple[float, float]:
    found = await writers(port, place, functions, connections)
    each = max(checkpoints // connections, 1)
    await asyncio.gather(*(writer.write(min(WARM_CHECKPOINTS, each)) for writer, _ in found))
    began, used = perf_counter(), process_time()
    await asyncio.gather(*(writer.write(each) for writer, _ in found))
    taken = perf_counter() - began, process_time() - used
    for writer, back in found:
        writer.transport.close()
        back.write(b"!")
        await back.drain()
    return taken


if __name__ == "__main__":
    port, place, functions, connections, checkpoints = sys.argv[1:]
    print(json.dumps(uvloop.run(main(int(port), Path(place), functions.split(","), int(connections), int(checkpoints)))))
