"""A server with hostile callers and hostile workers: `/health` answers, a neighbour's run ends, and the server obeys SIGTERM."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from bench.hostile_files.pages import HOSTILE, written
from holdfast.model.clock import monotonic
from tests.surface.serve_program import PATIENCE_SECONDS, Program, programs, until

FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
IDLE = 400
ENDINGS = {
    "doubling-question": (200, None),
    "large-question": (202, "approval_required"),
    "slow-output": (422, "schema_too_costly"),
    "wrong-output": (502, "output_schema_mismatch"),
    "tree-output": (200, None),
    "empty-lists": (502, "worker_crashed"),
    "large-frames": (200, None),
    "many-lines": (200, None),
    "hidden-names": (502, "output_schema_mismatch"),
    "slow-input": (422, "schema_too_costly"),
}


def asking(program: Program, address: str = "127.0.0.1") -> httpx.Client:
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=program.url, transport=transport, timeout=PATIENCE_SECONDS, trust_env=False)


def run(client: httpx.Client, worker: str, inputs: object) -> tuple[int, str | None]:
    answer = client.post(f"/v1/workers/{worker}/invoke", json={"inputs": inputs})
    error = answer.json().get("error")
    return answer.status_code, None if error is None else error["error_code"]


@contextlib.contextmanager
def looking(program: Program) -> Iterator[list[float]]:
    """How long `/health` took, again and again, until the block ends."""
    took: list[float] = []
    over = False

    def look() -> None:
        with asking(program, "127.0.0.2") as client:
            while not over:
                began = monotonic()
                assert client.get("/health").status_code == 200
                took.append(monotonic() - began)

    with ThreadPoolExecutor(1) as pool:
        looked = pool.submit(look)
        try:
            yield took
        finally:
            over = True
        looked.result()


@pytest.mark.long
def test_ten_hostile_workers_end_each_in_its_own_way_and_no_neighbour_notices(tmp_path: Path) -> None:
    with programs(tmp_path) as started:
        program = started.begun(written(tmp_path)).started("/v1/workers/")
        with asking(program) as client, ThreadPoolExecutor(len(HOSTILE)) as pool, looking(program) as took:
            assert run(client, "neighbour", {"say": "hi"}) == (200, None)
            attacks = {kind: pool.submit(run, client, kind, inputs) for kind, inputs in HOSTILE.items()}
            while not all(attack.done() for attack in attacks.values()):
                assert run(client, "neighbour", {"say": "hi"}) == (200, None)
            assert {kind: attack.result() for kind, attack in attacks.items()} == ENDINGS
        assert max(took) < 5.0
        began = monotonic()
        assert program.leave() == 0
        assert monotonic() - began < 20.0


def test_four_hundred_idle_connections_do_not_stop_the_engine_of_a_server_with_few_descriptors(tmp_path: Path) -> None:
    with programs(tmp_path) as started, contextlib.ExitStack() as held:
        program = started.begun(written(tmp_path), under=FEW_DESCRIPTORS).started("/v1/workers/")
        place = urlsplit(program.url)
        for _ in range(IDLE):
            held.enter_context(socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=PATIENCE_SECONDS))
        with asking(program, "127.0.0.2") as client:
            assert client.get("/health").status_code == 200
            assert run(client, "neighbour", {"say": "hi"}) == (200, None), "a run needs descriptors of its own"
        assert until(lambda: _open(program) < 256, "few descriptors")
        with asking(program) as crowded:
            assert crowded.get("/health").status_code == 200, "the connection that was idle longest was closed"


def _open(program: Program) -> int:
    return len(list(Path(f"/proc/{program.process.pid}/fd").iterdir()))
