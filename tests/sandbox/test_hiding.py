"""A body that hides from its limits: it chooses its name, ends its first thread, or keeps what it has where no count of memory looks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.hosts import processes
from holdfast.hosts.sandbox.jail import BodyEnd, TighterLimits
from holdfast.hosts.sandbox.sandbox import Sandbox
from tests.sandbox import settings
from tests.sandbox.conftest import Scene
from tests.sandbox.scene import jail_of

SEPARATORS = {
    "vertical tab": "\v",
    "form feed": "\f",
    "fs": "\x1c",
    "gs": "\x1d",
    "rs": "\x1e",
    "nel": "\x85",
    "line": "\u2028",
    "cr": "\r",
}
"""Where `str.splitlines` ends a line and the kernel does not."""
CODES = {"memory": "memory_exceeded", "cpu": "cpu_exceeded", "threads": "process_limit"}


@pytest.fixture
async def sandbox(package: Path) -> AsyncIterator[Sandbox]:
    """One stub for many attempts."""
    made = Sandbox(jail_of(str(package), "greedy:renamed", memory_mb=512, cpu_seconds=0.2))
    yield made
    await made.close()


_TRIES = 4


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's table of processes is Linux's")
@pytest.mark.parametrize(
    "takes, separators",
    [
        pytest.param("memory", SEPARATORS, id="memory"),
        pytest.param("threads", SEPARATORS, id="threads"),
        pytest.param("cpu", ["form feed", "nel"], id="cpu"),
        pytest.param("cpu", SEPARATORS, id="cpu-every-separator", marks=pytest.mark.long),
    ],
)
async def test_no_name_switches_a_limit_off(sandbox: Sandbox, takes: str, separators: Iterable[str]) -> None:
    came = {}
    for separator in separators:
        character = SEPARATORS[separator]
        name = {"memory": "RssAnon:", "cpu": "Threads:", "threads": "Threads:0"}[takes]
        for _ in range(_TRIES):
            attempt = await sandbox.attempt(30, None, TighterLimits(memory_mb=48) if takes == "memory" else TighterLimits())
            await attempt.send({"op": "run", "name": f"a{character}{name}", "takes": takes})
            end: Any = await attempt.receive()
            assert isinstance(end, BodyEnd)
            # So says the keeper who watches. The kernel's own limits lie further out; on a busy machine a body may reach them first.
            came[separator] = end.code, "are allowed" in end.detail
            if came[separator][1]:
                break
    assert came == dict.fromkeys(separators, (CODES[takes], True))


def test_every_process_is_read_whatever_its_name_is() -> None:
    if sys.platform != "linux":
        pytest.skip("the kernel's table of processes is Linux's")
    program = "import ctypes, sys; c = ctypes.CDLL(None)\nfor line in sys.stdin.buffer: c.prctl(15, line[:-1], 0, 0, 0); print(flush=True)"
    odd = [f"a{character}RssAnon:" for character in SEPARATORS.values()]
    odd += ["a) R 1 2 3", "(((", "VmHWM: 1", "Threads:\t0", "\udcff\udcfe", "\t:", ") ", "RssAnon:\t0 kB"]
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for name in odd:
            child.stdin.write(name.encode(errors="surrogateescape") + b"\n")
            child.stdin.flush()
            child.stdout.readline()
            found, seconds = processes.uses(child.pid), processes.cpu_seconds(child.pid)
            assert found is not None, name
            assert (found.kilobytes > 500, found.peak_kilobytes > 500, found.threads) == (True, True, 1), name
            assert seconds is not None, name
            assert child.pid in processes.children(os.getpid()), name
        child.stdin.close()
    assert processes.uses(child.pid) is None


@pytest.mark.parametrize(
    "text",
    [b"Name:\tx\n", b"Name:\tx\nThreads:\t\nRssAnon:\t1 kB\n", b"Name:\tx\nThreads:\tmany\n", b""],
    ids=["short", "no number", "word", "empty"],
)
def test_what_cannot_be_read_is_never_nothing(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(processes, "read", lambda path, most=None: text)
    with pytest.raises(processes.Unreadable):
        processes.uses(1)
    with pytest.raises(processes.Unreadable):
        processes.cpu_seconds(1)


def test_memory_counts_when_the_first_thread_has_ended(scene: Scene) -> None:
    found = scene.attempt("greedy:memory_behind_a_dead_leader", timeout=10)
    # Where only its own user watches it, the kernel does not tell any more what it wrote: that ends it as well.
    assert found["code"] in ("memory_exceeded", "limits_unreadable"), found["detail"]
    assert found["rss"] < 128 * 1.25 + 64 + 32


def test_a_signal_without_a_name_is_a_crash_and_not_the_sandboxes_fault(scenes: Callable[[str], Scene]) -> None:
    found = scenes(settings.USER_BARE).attempt(
        "greedy:signalled"
    )  # in a namespace of its own it is the first process, which signals pass by
    assert (found["code"], found["detail"].startswith("the body was ended by signal ")) == ("worker_crashed", True)


# --- memory of the kernel


def test_a_body_cannot_pin_more_of_the_kernels_memory_than_a_bound(scene: Scene) -> None:
    """500 MB are tried: buffers filled from both sides, and sockets on their way through other sockets."""
    found = scene.attempt("greedy:pinned", 500, jail={"memory_mb": 1024}, timeout=20)
    assert found["code"] is None, found["detail"]
    [frame] = found["frames"]
    assert frame["enlarged"] == {"socket": "Operation not permitted", "pipe": "Operation not permitted"}
    assert 1 < frame["mb"] < 128


def test_sockets_count_as_memory_each_as_if_it_were_full(apart: Scene) -> None:
    found = apart.attempt(
        "greedy:pinned", 500, jail={"memory_mb": 30}, timeout=20
    )  # also where a neighbour lets no descriptor be on its way
    assert found["code"] == "memory_exceeded", found["detail"]
    assert "sockets" in found["detail"]


def test_sockets_in_flight_and_of_children_count_too(apart: Scene) -> None:
    found = apart.attempt("greedy:pinned_by_children", jail={"memory_mb": 160, "allow_children": True}, timeout=20)
    assert found["code"] == "memory_exceeded", found["detail"]


def test_a_thread_has_no_descriptors_of_its_own(scene: Scene) -> None:
    [frame] = scene.attempt("kernel:thread_alone")["frames"]
    assert frame["outcomes"] == {"clone": "Operation not permitted"}


def test_locks_on_files_are_counted(scene: Scene) -> None:
    found = scene.attempt("greedy:locks", timeout=20)
    assert (found["code"], "locks" in found["detail"]) == ("memory_exceeded", True), found
