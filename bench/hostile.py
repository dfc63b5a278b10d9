"""Hostile neighbours: ten hostile workers of one tenant run at the same time; measured is their effect on another tenant and `/health`.

python -m bench.hostile [FOLDER]      the figures of each kind alone as well
python -m bench --only hostile        the two rows of the table
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, NamedTuple

import httpx

from bench.figures import Taken
from bench.hostile_files.pages import HOSTILE, written
from bench.terms import Sizes
from holdfast.model.credentials import checked_roles
from holdfast.store.backends import open_store
from holdfast.web.auth.keys import new_token

MS: Final = 1e3
_SECONDS: Final = 8.0
_PAUSE: Final = 0.01
_TOKEN: Final = "BENCH_TOKEN"
_PATIENCE: Final = 30.0
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:[0-9]+")


class Noticed(NamedTuple):
    """The delays that a neighbour sees, in seconds."""

    health: float
    """The slowest of a hundred requests to `/health`."""
    run: float
    """A run of another tenant, the median."""


def taken(folder: Path, sizes: Sizes) -> dict[str, Taken]:
    """Both figures under attack, beside those of the same server at rest."""
    kinds = tuple(HOSTILE)[: sizes.hostile_kinds]
    pairs = [asyncio.run(_pair(folder, kinds, sizes.hostile_seconds)) for _ in range(min(2, sizes.few))]
    return {
        "hostile health": Taken(tuple(busy.health for _, busy in pairs), tuple(idle.health for idle, _ in pairs)),
        "hostile run": Taken(tuple(busy.run for _, busy in pairs), tuple(idle.run for idle, _ in pairs)),
    }


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server with all the workers: its address, and a token for each of two tenants."""
    with TemporaryDirectory(dir=folder.resolve(), prefix="bench-") as place:
        file = written(Path(place))
        store = open_store(f"{place}/bench.db", "bench", None)
        issued = {name: new_token(roles=checked_roles(["operator"]), now=0, chance=os.urandom, tenant=name) for name in ("good", "bad")}
        for each in issued.values():
            store.put_credential(each.credential)
        store.close()
        command = [sys.executable, "-m", "holdfast.cli", "serve", str(file), "--port", "0", "--store", "bench.db"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "HOLDFAST_"))}
        with (
            Path(place, "log").open("w") as log,
            subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            try:
                yield _address(process), {name: each.secret for name, each in issued.items()}
            finally:
                process.terminate()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found = None
    for line in process.stdout:
        found = found or _ADDRESS.search(line)
        if found is not None and "/v1/workers/" in line:
            return found[0]
    raise RuntimeError("`holdfast serve` ended before it served")


async def _pair(folder: Path, kinds: Sequence[str], seconds: float) -> tuple[Noticed, Noticed]:
    with server(folder) as (address, tokens):
        return await noticed(address, tokens, (), seconds), await noticed(address, tokens, kinds, seconds)


async def noticed(address: str, tokens: dict[str, str], kinds: Sequence[str], seconds: float = _SECONDS) -> Noticed:
    """The delays while hostile workers of these kinds run again and again.

    The attacking clients are a process of their own: in this process their work would delay the clock that measures, not the server.
    Idle or attacked, the server and the measuring client are the same.
    """
    with _attackers(address, tokens["bad"], kinds):
        async with _client(address, tokens["good"]) as good:
            await asyncio.gather(_looked(good, seconds / 3), _ran(good, seconds / 3))
            healths, runs = await asyncio.gather(_looked(good, seconds), _ran(good, seconds))
    return Noticed(sorted(healths)[max(0, int(len(healths) * 0.99) - 1)], statistics.median(runs))


@contextmanager
def _attackers(address: str, token: str, kinds: Sequence[str]) -> Iterator[None]:
    """Clients that ask for hostile runs, in a process of their own with a high nice value: they stand for another machine.

    The measuring begins when the server has answered the first attack. Attackers that end before the measuring does are an error.
    """
    if not kinds:
        yield
        return
    command = [sys.executable, "-m", "bench.hostile", "--attack", address, *kinds]
    with subprocess.Popen(command, env={**os.environ, _TOKEN: token}, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            if process.poll() is not None:
                raise RuntimeError("the attackers ended before the measuring did")
        finally:
            process.terminate()


async def _attack(address: str, kinds: Sequence[str]) -> None:
    os.nice(19)
    async with _client(address, os.environ[_TOKEN]) as bad:
        answered = asyncio.Event()
        attacks = asyncio.gather(*(_again(bad, kind, answered) for kind in kinds))
        await answered.wait()
        print("attacking", flush=True)
        await attacks


@asynccontextmanager
async def _client(address: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=_PATIENCE, trust_env=False) as client:
        yield client


async def _again(client: httpx.AsyncClient, kind: str, answered: asyncio.Event) -> None:
    while True:
        await client.post(f"/v1/workers/{kind}/invoke", json={"inputs": HOSTILE[kind]})
        answered.set()


async def _looked(client: httpx.AsyncClient, seconds: float) -> list[float]:
    """How long each request to /health took."""
    return await _timed(client.build_request("GET", "/health"), client, seconds)


async def _ran(client: httpx.AsyncClient, seconds: float) -> list[float]:
    """How long each run took."""
    return await _timed(client.build_request("POST", "/v1/workers/neighbour/invoke", json={"inputs": {"say": "hi"}}), client, seconds)


async def _timed(request: httpx.Request, client: httpx.AsyncClient, seconds: float) -> list[float]:
    took: list[float] = []
    end = perf_counter() + seconds
    while (began := perf_counter()) < end:
        answer = await client.send(request)
        answer.raise_for_status()
        took.append(perf_counter() - began)
        await asyncio.sleep(_PAUSE)
    return took


async def _each(folder: Path) -> None:
    """Every kind alone, then all of them."""
    with server(folder) as (address, tokens):
        idle = await noticed(address, tokens, ())
        print(f"{'idle':20} /health p99 {idle.health * MS:7.1f} ms          run {idle.run * MS:7.1f} ms", flush=True)
        for name, kinds in ({kind: (kind,) for kind in HOSTILE} | {"all ten": tuple(HOSTILE)}).items():
            busy = await noticed(address, tokens, kinds)
            health, run = busy.health / idle.health, busy.run / idle.run
            print(f"{name:20} /health p99 {busy.health * MS:7.1f} ms {health:5.1f} x  run {busy.run * MS:7.1f} ms {run:5.1f} x", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        asyncio.run(_attack(sys.argv[2], sys.argv[3:]))
        sys.exit()
    asyncio.run(_each(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
