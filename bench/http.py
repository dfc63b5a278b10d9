"""The HTTP service: `holdfast serve` in a process of its own, its functions in processes of theirs, and clients outside of it."""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, NamedTuple

import boto3
from botocore.config import Config

from bench.http_load import FUNCTIONS as IN_SEQUENCE
from bench.http_load import WORKERS, steps_per_second
from bench.terms import PAYLOAD, Sizes

ROOT: Final = Path(__file__).resolve().parent.parent
FUNCTIONS: Final = ROOT / "bench" / "http_functions"
LENDERS: Final = ("lends_one", "lends_two")
WARM_CALLS: Final = 30
PATIENCE_SECONDS: Final = 600
LOOKED_AT: Final = 5
"""One of this many invocations is durable, because a durable one takes a hundred times as long."""
_EXPORT: Final = re.compile(r"AWS_ENDPOINT_URL_LAMBDA=http://127\.0\.0\.1:([0-9]+)")


def template() -> str:
    """All functions of the bench, as SAM would deploy them."""

    def function(handler: str, *, durable: bool = True) -> dict[str, Any]:
        properties = {"CodeUri": str(FUNCTIONS), "Handler": f"app.{handler}", "Runtime": "python3", "Timeout": 120}
        more = {"DurableConfig": {"ExecutionTimeout": 600}} if durable else {}
        return {"Type": "AWS::Serverless::Function", "Properties": {**properties, **more}}

    functions = {name: function("in_sequence") for name in IN_SEQUENCE} | {"plain": function("plain", durable=False)}
    lenders = {name: function("lends") for name in LENDERS}
    resources = {"".join(filter(str.isalpha, name)): made for name, made in {**functions, **lenders}.items()}
    for name, made in zip({**functions, **lenders}, resources.values(), strict=True):
        made["Properties"]["FunctionName"] = name
    return json.dumps({"Transform": "AWS::Serverless-2016-10-31", "Resources": resources})


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, Path]]:
    """A server over a new file in `folder`: its port, and a place for files."""
    with TemporaryDirectory(dir=folder.resolve(), prefix="bench-") as place:
        Path(place, "template.json").write_text(template(), encoding="utf-8")
        command = [sys.executable, "-m", "holdfast.cli", "serve", "template.json", "--port", "0", "--store", "bench.db"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "HOLDFAST_"))}
        with (
            Path(place, "log").open("w") as log,
            subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            try:
                yield _port(process), Path(place)
            finally:
                process.terminate()


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if (found := _EXPORT.search(line)) is not None:
            return int(found[1])
    raise RuntimeError("`holdfast serve` ended before it served")


def steps(folder: Path, sizes: Sizes) -> list[float]:
    """Steps per second of handlers of the official SDK, in several rounds."""
    with server(folder) as (port, _):
        steps_per_second(port, min(2 * WORKERS, sizes.http_executions), 2)
        return [steps_per_second(port, sizes.http_executions, sizes.http_steps) for _ in range(sizes.few)]


class Checkpoints(NamedTuple):
    """The figures of a minimal client."""

    per_second: float
    client: float
    """The share of a core that the client itself used."""


def checkpoints(folder: Path, sizes: Sizes) -> Iterator[Checkpoints]:
    """Checkpoints per second over plain connections, each its own execution, in several rounds."""
    with server(folder) as (port, place):
        for number in range(sizes.few):
            seconds, used = _client_ended(port, place / f"lent-{number}", sizes)
            each = max(sizes.http_checkpoints // sizes.http_connections, 1)
            yield Checkpoints(each * sizes.http_connections / seconds, used / seconds)


def _client_ended(port: int, place: Path, sizes: Sizes) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.http_raw", str(port), str(place), ",".join(LENDERS)]
    more = [str(sizes.http_connections), str(sizes.http_checkpoints)]
    ended = subprocess.run([*command, *more], cwd=ROOT, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    if ended.returncode:
        raise RuntimeError(f"the client failed: {ended.stderr}")
    seconds, used = json.loads(ended.stdout)
    return seconds, used


def invocations(folder: Path, sizes: Sizes) -> dict[str, float]:
    """Seconds from request to answer on an idle server, the median: a plain function over a plain connection and with boto3, and a
    durable one of one step."""
    with server(folder) as (port, _), closing(_client(port)) as client, Connection(port) as connection:
        body = json.dumps(PAYLOAD).encode()
        durable = json.dumps({"steps": 1, "payload": PAYLOAD}).encode()

        def boto(function: str, payload: bytes, wanted: bytes) -> None:
            with closing(client.invoke(FunctionName=function, Payload=payload)["Payload"]) as stream:
                assert stream.read() == wanted

        return {
            "HTTP invoke": _median(lambda: connection.invoke("plain", body), sizes.http_invocations),
            "HTTP invoke boto3": _median(lambda: boto("plain", body, body), sizes.http_invocations),
            "HTTP invoke durable": _median(lambda: boto("in_sequence:$LATEST", durable, b"1"), sizes.http_invocations // LOOKED_AT),
        }


def _median(call: Callable[[], None], calls: int) -> float:
    times = []
    for _ in range(min(WARM_CALLS, calls)):
        call()
    for _ in range(calls):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return statistics.median(times)


def _client(port: int) -> Any:
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "region_name": "us-east-1"}
    return boto3.client("lambda", endpoint_url=f"http://127.0.0.1:{port}", config=Config(retries={"max_attempts": 0}), **keys)


class Connection:
    """One plain connection that is kept."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def invoke(self, function: str, body: bytes) -> None:
        """Invoke a function that returns its payload."""
        head = f"POST /2015-03-31/functions/{function}/invocations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)
        got = b""
        while not got.endswith(body):
            part = self._socket.recv(65536)
            assert part, f"the server hung up after {got[:500]!r}"
            got += part
