"""Attacks on the private listener of a function's process, and on its home."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from holdfast.lambda_api.runtime import environment, peers
from holdfast.lambda_api.runtime.runtime_listener import RuntimeListener
from holdfast.web.replies import json_reply
from tests.flow.runtime.running import alive, hosting, plain, until

ROOT, OTHER_USER, UNPRIVILEGED = 0, 12345, 65534
_BATCH = 100
"""Fewer than the kernel keeps waiting for a listener that is busy."""
_PROGRAM = [sys.executable, "-m", "tests.flow.runtime.strangers"]

_CLIENT = str(Path(environment.__file__).parent / "clients" / "python_client.py")

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
CASES = [(ROOT, UNPRIVILEGED), (ROOT, ROOT), (OTHER_USER, UNPRIVILEGED), (OTHER_USER, ROOT), (OTHER_USER, OTHER_USER)]
PEOPLE = CASES if os.getuid() == ROOT else [(os.getuid(), os.getuid())]


class Runner:
    """A process with a private listener."""

    def __init__(self, user: int) -> None:
        self._process = subprocess.Popen([*_PROGRAM, "listen", str(user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.heard()

    def heard(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def attacked(self, user: int, count: int) -> None:
        subprocess.run([*_PROGRAM, "attack", str(user), self.address, str(count)], check=True, timeout=60)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait(30)


@contextlib.contextmanager
def runner(user: int) -> Iterator[Runner]:
    made = Runner(user)
    try:
        yield made
    finally:
        made.close()


def tried(user: int, stranger: int, batches: int) -> dict[str, int]:
    """How many requests got in: half of the tries while the runner's loop is busy, so that all are gone when it looks."""
    with runner(user) as listening:
        for number in range(batches):
            if number % 2 == 0:
                listening.tell("block")
                assert listening.heard() == "blocked"
                listening.attacked(stranger, _BATCH)
                listening.tell("go")
            else:
                listening.attacked(stranger, _BATCH)
        for family in "46":
            listening.tell(f"friend {family}")
            assert listening.heard() == "HTTP/1.1 200 OK"
        listening.tell("count")
        found: dict[str, int] = json.loads(listening.heard())
    return found


@only_linux
@pytest.mark.parametrize("user, stranger", [case for case in PEOPLE if UNPRIVILEGED in case] or PEOPLE)
def test_a_stranger_who_connects_sends_and_closes_does_not_get_in(user: int, stranger: int) -> None:
    assert tried(user, stranger, 2) == {"/stranger": 0, "/friend": 2}


@only_linux
@pytest.mark.long
@pytest.mark.parametrize("user, stranger", PEOPLE)
def test_of_a_thousand_strangers_none_gets_in(user: int, stranger: int) -> None:
    assert tried(user, stranger, 1000 // _BATCH) == {"/stranger": 0, "/friend": 2}


@only_linux
async def test_a_process_of_the_same_user_that_the_function_did_not_start_is_hung_up_on() -> None:
    async with hosting(plain("about")) as (host, _):
        address = json.loads((await host.call("about", "$LATEST", b"null")).payload)["env"]["AWS_LAMBDA_RUNTIME_API"]
        async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get("/2018-06-01/runtime/invocation/next")
        assert json.loads((await host.call("about", "$LATEST", b"null")).payload)["name"] == "about"


class Connection:
    """The runner's end of a connection, as a transport shows it."""

    def __init__(self, end: socket.socket | None) -> None:
        self._end = end

    def get_extra_info(self, name: str) -> Any:
        if self._end is None:
            return None
        return {"socket": self._end, "peername": self._end.getpeername(), "sockname": self._end.getsockname()}[name]


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as theirs:
        ours, _ = server.accept()
        with ours:
            yield ours, theirs


def asked(end: socket.socket | None, guard: int | None) -> bool:
    return peers.is_from_below(Connection(end), guard)  # type: ignore[arg-type]


@only_linux
def test_a_table_that_cannot_be_read_is_a_refusal(
    connected: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parent = os.getppid()
    assert asked(connected[0], parent), "this process is below its parent"
    assert not asked(connected[0], None)
    assert not asked(None, parent)
    monkeypatch.setattr(peers, "_TABLE", str(tmp_path / "none"))
    assert not asked(connected[0], parent)
    monkeypatch.setattr(peers, "_TABLE", str(tmp_path))
    assert not asked(connected[0], parent)


@only_linux
def test_a_connection_that_one_end_has_left_is_refused(connected: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = connected
    theirs.shutdown(socket.SHUT_WR)
    assert not asked(ours, os.getppid())


def test_a_system_that_cannot_tell_lets_everybody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "can_tell", lambda: False)
    assert asked(None, None)


async def test_who_asks_is_found_out_once_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await json_reply({})(scope, receive, send)

    def look(*about: object) -> bool:
        looked.append(about)
        return True

    monkeypatch.setattr("holdfast.lambda_api.runtime.runtime_listener.is_from_below", look)
    listener = RuntimeListener(app, lambda client: None, os.getpid)
    await listener.open()
    async with httpx.AsyncClient(base_url=f"http://{listener.address}", trust_env=False) as client:
        assert [(await client.get("/")).status_code for _ in range(5)] == [200] * 5
    assert len(looked) == 1
    listener.close()
    await asyncio.sleep(0)


# --- homes


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that all users may write to, as `/tmp` is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def planted(shared: Path, tmp_path: Path) -> Path:
    """What appears when code that another user left in the shared folder runs."""
    site = shared / ".local" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    marker = tmp_path / "ran"
    for trap in ("evil.pth", "usercustomize.py"):
        (site / trap).write_text(f"import os; open({str(marker)!r}, 'w').close()\n")
    unwary = {name: value for name, value in os.environ.items() if name != "PYTHONNOUSERSITE"} | {"HOME": str(shared)}
    subprocess.run([sys._base_executable, "-c", ""], env=unwary, check=True)  # type: ignore[attr-defined]
    assert marker.exists(), "a Python of that home would run it"
    marker.unlink()
    return marker


async def test_what_another_user_planted_in_the_shared_temporary_folder_does_not_run_in_a_function(planted: Path, shared: Path) -> None:
    # An interpreter outside of a virtual environment is the one that looks into homes.
    command = (sys._base_executable, _CLIENT, "plain.about")  # type: ignore[attr-defined]
    async with hosting(plain("about"), plain("about", function="bare", command=command)) as (host, _):
        for function in ("about", "bare"):
            env = json.loads((await host.call(function, "$LATEST", b"null")).payload)["env"]
            assert env["HOME"] != str(shared)
    assert planted.name not in os.listdir(planted.parent)


async def test_every_process_has_a_private_home_that_goes_with_it(shared: Path) -> None:
    async with hosting(plain("about"), plain("keeps")) as (host, _):
        homes = []
        for function in ("about", "keeps"):
            told = json.loads((await host.call(function, "$LATEST", b"null")).payload)["env"]
            homes.append(Path(told["HOME"]))
            assert told["PYTHONNOUSERSITE"] == "1"
        assert len(set(homes)) == 2
        for home in homes:
            place = [home, home / "tmp", home.parent]
            assert [(stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) for path in place] == [(0o700, os.geteuid())] * 3
            assert home.parent.parent == shared
        assert "deep" in os.listdir(homes[1])
    assert [home for home in homes if home.exists()] == []


async def test_the_home_of_a_process_goes_when_its_runner_is_killed(shared: Path, tmp_path: Path) -> None:
    program = (
        "import asyncio, json, tempfile\n"
        "from tests.flow.runtime.running import hosting, plain\n"
        "async def main():\n"
        "    async with hosting(plain('about')) as (host, _):\n"
        "        print((await host.call('about', '$LATEST', b'null')).payload.decode(), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env={**os.environ, "TMPDIR": str(shared)}
    )
    assert killed.stdout is not None
    told = json.loads(await killed.stdout.readline())
    home = Path(told["env"]["HOME"])
    assert home.name in os.listdir(home.parent)
    killed.kill()
    await killed.wait()
    await until(lambda: not home.exists(), "the home to be removed")
    await until(lambda: not alive([told["pid"]]), "the process to be gone")
