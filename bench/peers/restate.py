# mypy: disable-error-code="untyped-decorator"
"""Restate: its server, and a service of the Python SDK in a process of its own, as its documentation sets them up.

Its settings, and why:
- the server as it comes: its log is synced before it acknowledges;
- the service on granian, over HTTP/2;
- 250 callers at once, who keep their connections open (32 to 1,000 were tried).

W4 and W5 are not here: the journal lives in the server, which is not the process that would be killed.

    python -m bench.peers.restate WORKLOAD FOLDER SIZES
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import restate  # type: ignore[import-not-found, unused-ignore]

from bench.terms import PAYLOAD, Sizes

Figures = dict[str, list[float]]
CALLERS: Final = 250
PATIENCE_SECONDS: Final = 60
service = restate.Service("bench")


async def step(number: int) -> dict[str, Any]:
    return {**PAYLOAD, "number": number}


@service.handler()
async def in_sequence(context: restate.Context, event: dict[str, Any]) -> int:
    for number in range(event["steps"]):
        await context.run_typed("step", step, number=number)
    return int(event["steps"])


@service.handler()
async def side_by_side(context: restate.Context, event: dict[str, Any]) -> int:
    done = await restate.gather(*(context.run_typed("step", step, number=number) for number in range(event["steps"])))
    return len(done)


app = restate.app([service])


# --- its two processes --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def processes(folder: Path) -> Iterator[int]:
    """The server and the service, introduced to each other; the port where callers call."""
    (server,) = Path(sys.prefix).glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
    ingress, admin, node, port = (free_port() for _ in range(4))
    settings = {
        "RESTATE_BASE_DIR": str(folder),
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RUST_LOG": "error",
    }
    hosted = [str(Path(sys.executable).parent / "granian"), "--interface", "asgi", "--no-ws", "--log-level", "error", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with (
        ended(subprocess.Popen([server, "--no-logo"], env={**os.environ, **settings}, cwd=folder, **quiet)),  # type: ignore[call-overload]
        ended(subprocess.Popen([*hosted, "bench.peers.restate:app"], **quiet)),  # type: ignore[call-overload]
    ):
        asyncio.run(introduced(admin, ingress, port))
        yield ingress


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End it with everything it started: granian's worker would outlive granian."""
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def introduced(admin: int, ingress: int, port: int) -> None:
    """Tell the server where the service is, once both are there, and wait until it can be called."""
    for at, path, body in (
        (admin, "/deployments", {"uri": f"http://127.0.0.1:{port}"}),
        (ingress, "/bench/in_sequence", {"steps": 1}),
    ):
        until = perf_counter() + PATIENCE_SECONDS
        while True:
            try:
                async with caller(at) as call:
                    await call(path, body)
                break
            except (OSError, EOFError, Refused):
                if perf_counter() > until:
                    raise
                await asyncio.sleep(0.1)


class Refused(Exception):
    """An answer that is no success."""


Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def caller(port: int) -> AsyncIterator[Call]:
    """One connection that is kept. Plain sockets, because a client library would use as much of the machine as the service does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def call(path: str, body: dict[str, Any]) -> Any:
        payload = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        writer.write(head.encode() + payload)
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next((int(field.partition(":")[2]) for field in fields if field.startswith("content-length:")), 0)
        said = await reader.readexactly(length)
        if status.split()[1][0] != "2":
            raise Refused(f"{status}: {said.decode()}")
        return json.loads(said) if said else None

    try:
        yield call
    finally:
        writer.close()


# --- the workloads ------------------------------------------------------------------------------------------------------------


async def timed(call: Call, handler: str, steps: int) -> float:
    began = perf_counter()
    assert await call(f"/bench/{handler}", {"steps": steps, **PAYLOAD}) == steps
    return perf_counter() - began


async def w1(port: int, sizes: Sizes) -> Figures:
    async with caller(port) as call:
        await timed(call, "in_sequence", 20)
        return {"W1": [await timed(call, "in_sequence", sizes.w1_steps) / sizes.w1_steps for _ in range(sizes.pairs)]}


async def w2(port: int, sizes: Sizes) -> Figures:
    async def all_of(count: int) -> float:
        left = iter(range(count))

        async def some() -> None:
            async with caller(port) as call:
                for _ in left:
                    await timed(call, "in_sequence", sizes.w2_steps)

        began = perf_counter()
        await asyncio.gather(*(some() for _ in range(min(CALLERS, count))))
        return perf_counter() - began

    await all_of(min(200, sizes.w2_executions))
    return {"W2": [sizes.w2_executions * sizes.w2_steps / await all_of(sizes.w2_executions) for _ in range(sizes.pairs)]}


async def w3(port: int, sizes: Sizes) -> Figures:
    async with caller(port) as call:
        await timed(call, "side_by_side", 20)
        return {
            "W3 parallel": [await timed(call, "side_by_side", sizes.w3_branches) for _ in range(sizes.few)],
            "W3 map": [await timed(call, "side_by_side", sizes.w3_items)] if sizes.w3_items else [],
        }


async def w6(port: int, sizes: Sizes) -> Figures:
    found: Figures = {"W6": [], "W6 p99": []}
    async with caller(port) as call:
        for _ in range(10):
            await timed(call, "in_sequence", 1)
        for _ in range(sizes.few):
            times = [await timed(call, "in_sequence", 1) for _ in range(sizes.w6_rounds)]
            found["W6"].append(statistics.median(times))
            found["W6 p99"].append(statistics.quantiles(times, n=100)[98])
    return found


WORKLOADS: Final = {"W1": w1, "W2": w2, "W3": w3, "W6": w6}


def main() -> None:
    workload, place, terms = sys.argv[1:]
    inside = TemporaryDirectory(dir=place, prefix="bench-", ignore_cleanup_errors=True)
    with inside as folder, processes(Path(folder)) as port:
        print(json.dumps(asyncio.run(WORKLOADS[workload](port, Sizes.from_json(terms)))))


if __name__ == "__main__":
    main()
