"""After the death of any process of the sandbox, nothing is left of the attempt."""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.parts import one_of_each
from tests.sandbox import scene as scenes_of
from tests.sandbox import settings
from tests.sandbox.conftest import Scene

PATIENCE = 30.0


@pytest.fixture(params=one_of_each(settings.SETTINGS, kind=settings.has_namespaces))
def own(request: pytest.FixtureRequest, package: Path) -> Iterator[Scene]:
    """A runner of this test's own, which it may kill."""
    if why := settings.possible(request.param):
        pytest.skip(why)
    scene = Scene(request.param, package)
    yield scene
    scene.close()


def eventually(fact: Callable[[], bool]) -> bool:
    """Wait for a fact that has no event of its own here."""
    until = time.monotonic() + PATIENCE
    while not fact():
        if time.monotonic() > until:
            return False
        select.select([], [], [], 0.002)
    return True


def test_the_runners_death_is_everybodys(own: Scene) -> None:
    own.tell("greedy:sleep_through_signals", hold=True)
    processes = own.hear()["processes"]
    assert len(processes) >= 3  # the stub, the keeper, the body; and a spare
    folders = set(_folders())
    os.kill(own.pid, signal.SIGKILL)
    assert eventually(lambda: not any(scenes_of.alive(pid) for pid in processes))
    assert scenes_of.family(own.pid) == []
    assert folders - set(_folders())  # the stub took its folder with it


def test_a_keepers_death_is_its_bodys(own: Scene) -> None:
    own.tell("greedy:sleep_through_signals", hold=True)
    body = own.hear()["pid"]
    os.kill(_parent(body), signal.SIGKILL)
    found = own.hear()
    assert (found["code"], found["detail"]) == ("worker_crashed", "its keeper was killed")
    assert not found["alive"]


def test_the_stubs_death_is_everybodys_but_the_runners(own: Scene) -> None:
    own.tell("greedy:sleep_through_signals", hold=True)
    body = own.hear()["pid"]
    os.kill(_parent(_parent(body)), signal.SIGKILL)
    assert own.hear()["code"] == "worker_crashed"
    assert own.attempt("talker:printing")["code"] is None  # and the next one has another


def test_what_a_killed_stub_left_is_swept_by_the_next(own: Scene) -> None:
    own.tell("greedy:sleep", hold=True)
    body = own.hear()["pid"]
    stub = _parent(_parent(body))
    [folder] = {Path(os.readlink(f"/proc/{stub}/fd/{fd}")) for fd in os.listdir(f"/proc/{stub}/fd")} & set(_folders())
    os.kill(stub, signal.SIGKILL)
    assert own.hear()["code"] == "worker_crashed"
    assert own.attempt("talker:printing")["code"] is None
    assert folder.exists()  # too young: a stub may be about to use it
    os.utime(folder, (1, 1))
    assert own.attempt("talker:printing")["code"] is None
    assert not folder.exists()


def test_a_folder_in_use_is_not_swept(own: Scene, scenes: Callable[[str], Scene]) -> None:
    own.tell("greedy:sleep", hold=True, timeout=60)
    held = own.hear()
    stub = _parent(_parent(held["pid"]))
    [folder] = {Path(os.readlink(f"/proc/{stub}/fd/{fd}")) for fd in os.listdir(f"/proc/{stub}/fd")} & set(_folders())
    os.utime(folder, (1, 1))
    assert scenes(own.setting).attempt("talker:printing")["code"] is None
    assert folder.exists()
    os.kill(held["pid"], signal.SIGKILL)
    assert own.hear()["code"] == "worker_crashed"


def test_a_killed_body_has_crashed(own: Scene) -> None:
    own.tell("greedy:sleep", hold=True)
    os.kill(own.hear()["pid"], signal.SIGKILL)
    found = own.hear()
    assert (found["code"], found["detail"]) == ("worker_crashed", "the body was ended by SIGKILL")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def _folders() -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob("holdfast-*/sandbox-*")
