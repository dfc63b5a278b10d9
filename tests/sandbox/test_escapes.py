"""Escapes, each tried for real in every setting: files, network, the kernel, other processes."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.hosts.sandbox.inside import syscalls
from holdfast.hosts.sandbox.snapshot import gather, snapshot
from tests.sandbox.conftest import BODIES, Scene

REFUSED = {"Operation not permitted", "Permission denied", "No such file or directory", "Function not implemented", "No such process"}
REFUSED |= {
    "Read-only file system",
    "Operation not supported",
    "Invalid cross-device link",
    "Invalid argument",
    "gaierror",
    "Transport endpoint is already connected",
}


UNWRITABLE = {"Bad file descriptor", "Inappropriate ioctl for device"}
"""What the kernel says of a descriptor that is open for reading only."""


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    """What a body's trials came to; it must have lived to tell."""
    assert found["code"] is None, found
    [frame] = found["frames"]
    told: dict[str, str] = frame["outcomes"]
    return told


def leaks(found: dict[str, Any]) -> dict[str, str]:
    """What was not refused."""
    return {name: what for name, what in outcomes(found).items() if what not in REFUSED}


@pytest.fixture
def project(open_folder: Path, scene: Scene) -> Iterator[Path]:
    """A project as on a user's disk: code, secrets and the store in one folder, all owned by the runner's user."""
    folder = open_folder / secrets.token_hex(8)
    shutil.copytree(BODIES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".env").write_text("PAY_KEY=secret")
    (folder / "holdfast.db").write_text("the store")
    for path in (folder, *folder.iterdir()):
        os.chown(path, scene.user, scene.user)
    yield folder
    shutil.rmtree(folder)


# --- files


def test_a_body_reads_its_snapshot_and_nothing_beside_where_it_came_from(scene: Scene, project: Path, open_folder: Path) -> None:
    kept = Path(tempfile.mkdtemp(prefix="snapshots-", dir=open_folder))  # mode 0700: the runner's alone, who need not be the body
    package = snapshot(gather(project / "files.py", include=["page.md"]), kept)
    os.chown(kept, scene.user, scene.user)
    own = [str(package / "files.py"), str(package / "page.md")]
    secrets = [project / ".env", project / "holdfast.db", project / "files.py", "/etc/passwd", "/etc/hostname", "/proc/self/environ"]
    secrets += [f"/proc/{scene.pid}/environ", "/proc/1/environ", "/proc/self/root/etc/passwd", "/sys/kernel/notes", "/dev/mem", "/dev/kmsg"]
    found = outcomes(scene.attempt("files:read", *own, *secrets, package=package))
    assert [name for name in own if not found.pop(name).startswith("GOT")] == []
    assert {name: what for name, what in found.items() if what not in REFUSED} == {}


def test_a_body_cannot_list_folders_outside(scene: Scene, project: Path) -> None:
    assert leaks(scene.attempt("files:listing", project, "/", "/etc", "/proc", "/var", "/home", "/sys", "..")) == {}


def test_a_body_changes_no_file_outside_in_any_way(scene: Scene, project: Path) -> None:
    store = project / "holdfast.db"
    before = _state(project)
    found = outcomes(scene.attempt("files:write", store))
    assert _state(project) == before
    pretended = {"chmod", "utime"}  # without mounts of its own these are answered with nothing done
    assert {name: what for name, what in found.items() if what not in REFUSED and name not in pretended} == {}


def test_a_body_cannot_change_its_own_code(scene: Scene, project: Path) -> None:
    before = _state(project)
    outcomes(scene.attempt("files:own_code", project / "files.py", package=project))
    assert _state(project) == before


def test_a_handed_file_is_not_changed_through_its_descriptor(scene: Scene, project: Path) -> None:
    artifact = project / "holdfast.db"
    artifact.write_text("an artifact of the runner's own")
    os.chown(artifact, scene.user, scene.user)
    before = _state(project)
    found = outcomes(scene.attempt("files:handed", hand=artifact))
    assert _state(project) == before
    # Where nothing is mounted for the body, changing a mode by a name is answered with yes and not done: the state has shown that.
    told = {name: what for name, what in found.items() if what not in REFUSED | UNWRITABLE}
    assert {name for name, what in told.items() if what != "GOT None" or not re.match("(chmod|utime) by", name)} == set()
    plain = {"fchmod", "fchmodat2, empty path", "fchown", "fchownat, empty path", "futimens", "utimensat, no path", "utimensat, empty path"}
    assert {found[name] for name in plain} == {"Operation not permitted"}


def test_a_body_changes_its_own_files_by_their_names(scene: Scene) -> None:
    assert outcomes(scene.attempt("files:own_files")) == {"own files": "GOT 'con'"}


def _state(folder: Path) -> dict[str, tuple[int, int, int, float, bytes]]:
    kept = {}
    for path in folder.rglob("*"):
        found = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        kept[path.name] = (found.st_mode, found.st_uid, found.st_nlink, found.st_mtime, content)
    return kept


# --- network


@pytest.fixture
def servers(open_folder: Path) -> Iterator[tuple[list[socket.socket], list[object]]]:
    """Listeners behind every door, all of which must stay quiet."""
    name = secrets.token_hex(6)
    stream, datagram = str(open_folder / f"{name}.s"), str(open_folder / f"{name}.d")
    with ExitStack() as stack:
        tcp, udp = (stack.enter_context(socket.socket(socket.AF_INET, kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        unix = [
            stack.enter_context(socket.socket(socket.AF_UNIX, kind)) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_STREAM)
        ]
        for listener, address in zip(unix, (stream, datagram, "\0" + name), strict=True):
            listener.bind(address)
        for path in (stream, datagram):
            os.chmod(path, 0o777)
        for listener in (tcp, unix[0], unix[2]):
            listener.listen()
        for listener in (tcp, udp, *unix):
            listener.setblocking(False)
        yield [tcp, udp, *unix], [tcp.getsockname()[1], stream, datagram, name]


def test_no_door_leads_to_the_network(scene: Scene, servers: tuple[list[socket.socket], list[object]]) -> None:
    listeners, addresses = servers
    assert leaks(scene.attempt("network:dial", *addresses)) == {}
    for listener in listeners:
        with pytest.raises(BlockingIOError):
            listener.accept() if listener.type == socket.SOCK_STREAM else listener.recv(1)


def test_no_address_family_can_be_opened_at_all(scene: Scene) -> None:
    assert outcomes(scene.attempt("network:raw", 1)) == {}


def test_a_body_has_a_network_of_its_own_where_namespaces_exist(apart: Scene) -> None:
    isolation = apart.attempt("honest:main")["isolation"]
    assert isolation["network_namespace"]
    assert isolation["pid_namespace"]


def test_the_same_tries_succeed_without_the_jail(scene: Scene, project: Path, servers: tuple[list[socket.socket], list[object]]) -> None:
    """Else the tests above would prove nothing."""
    process = {"isolation": "process"}
    read = outcomes(scene.attempt("files:read", project / ".env", "/etc/passwd", jail=process))
    assert [what[:3] for what in read.values()] == ["GOT", "GOT"]
    dialled = outcomes(scene.attempt("network:dial", *servers[1], jail=process))
    assert {"tcp", "udp", "unix stream", "unix datagram", "unix abstract", "datagram pair, message"} <= {
        name for name, what in dialled.items() if what.startswith("GOT")
    }
    written = outcomes(scene.attempt("files:write", project / "holdfast.db", jail=process))
    assert written["append"].startswith("GOT")


# --- the kernel


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no numbers for this machine")
def test_every_refused_call_is_refused(scene: Scene) -> None:
    numbers = syscalls.numbers(platform.machine())
    harmless_alone = {"seccomp", "capset"}  # with these arguments they could only fail in another way
    pairs = [f"{name}={numbers[name]}" for name in syscalls.REFUSED if name in numbers and name not in harmless_alone]
    found = outcomes(scene.attempt("kernel:calls", *pairs))
    assert {name: what for name, what in found.items() if what != "Operation not permitted"} == {}


def test_no_new_namespace_and_no_mount(scene: Scene) -> None:
    assert leaks(scene.attempt("kernel:namespaces")) == {}


def test_no_new_namespace_even_where_children_are_allowed(apart: Scene) -> None:
    assert leaks(apart.attempt("kernel:namespaces", jail={"allow_children": True})) == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only this machine has doors of another")
@pytest.mark.parametrize("door", ["x32", "i386"])
def test_another_machines_door_is_death(scene: Scene, door: str) -> None:
    found = scene.attempt("kernel:foreign", door)
    assert (found["code"], found["detail"]) == ("worker_crashed", "the body was ended by SIGSYS")


# --- other processes


def test_other_processes_cannot_be_seen_stopped_or_limited(scene: Scene) -> None:
    found = scene.attempt("kernel:others", "{runner}", scene.pid)
    assert leaks(found) == {}
    assert scene.attempt("talker:printing")["code"] is None  # the runner is well


def test_code_at_the_top_of_a_module_is_in_the_jail_too(scene: Scene) -> None:
    assert outcomes(scene.attempt("early:main")) == {"socket at import": "Operation not permitted"}


def test_nothing_of_the_runners_environment_is_inside(scene: Scene) -> None:
    [frame] = scene.attempt("honest:environment")["frames"]
    assert "the-runners-own" not in str(frame)
    assert {entry.partition("=")[0] for entry in frame["environment"]} == {"HOME", "TMPDIR", "LANG", "PATH", "PYTHONDONTWRITEBYTECODE"}


def test_a_body_has_four_descriptors(scene: Scene) -> None:
    [frame] = scene.attempt("honest:descriptors")["frames"]
    assert frame["open"] == [0, 1, 2, 3]


def test_what_held_is_told(scene: Scene) -> None:
    held = scene.attempt("talker:printing")["isolation"]
    assert (held["isolation"], held["seccomp"], held["capabilities"], held["no_new_privileges"]) == ("all", True, "none", True)
    assert [held[f"{kind}_namespace"] for kind in ("user", "pid", "network", "mount", "ipc")] == [scene.apart] * 5
    assert held["landlock"] > 0
    assert held["watched_every_ms"] == 50
    assert held["cgroup_v2"] == ("here, not used" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "absent")
    if scene.apart:
        assert held["user"] != 0
