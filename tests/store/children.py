"""Other processes on the same file: `python -m tests.store.children WHAT PATH MEMBER …`. They talk in lines, and wait for facts."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.writes import LEASE, live, wanted
from tests.unit.source_files import ROOT


def child(what: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start one."""
    command = [sys.executable, "-m", "tests.store.children", what, str(path), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    """Its next line; an empty one when it ended."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def told(process: subprocess.Popen[str], line: str = "") -> None:
    """Say something to it."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def hold(path: str, member: str) -> None:
    """Run an execution for ever."""
    store = SqliteStore(path, member)
    store.join(member, LEASE)
    live(store, f"held by {member}", runner=member)
    say("holding")
    sys.stdin.readline()
    store.close()


def fork(path: str, member: str) -> None:
    """Run an execution for ever, and have a forked child that outlives us."""
    store = SqliteStore(path, member)
    store.join(member, LEASE)
    live(store, f"held by {member}", runner=member)
    born = os.fork()
    if born:
        os.waitpid(born, 0)
        return
    say(str(os.getpid()))  # the child, so that it has surely begun
    sys.stdin.read()  # until the test hangs up
    store.close()
    os._exit(0)


def remove(path: str, member: str, now: str) -> None:
    """Remove what is over, a row at a time, and say so after each."""
    store = SqliteStore(path, member)
    while store.expire(int(now), 1):
        say("removed")
    say("done")


def make(path: str, member: str) -> None:
    """Open a store that may not be there yet."""
    say("ready")
    sys.stdin.readline()
    store = SqliteStore(path, member)
    store.join(member, LEASE)
    say(store.seal.callback("00000000-0000-7000-8000-000000000000", "same key"))
    store.close()


def stand(path: str, member: str, where: str) -> None:
    """Take one half of the turnstile and stay in it, as a process does that is stopped there."""
    store = SqliteStore(path, member)
    gate = getattr(store._presence._turnstile, where) if store._presence else None
    say("standing" if gate and gate.enter() else "no room")
    sys.stdin.readline()


def saturate(path: str, member: str, count: str) -> None:
    """Commit as fast as it goes: all is made before, and a commit is long compared with what lies between two."""
    store = SqliteStore(path, member)
    store.join(member, LEASE)
    batches = [[wanted(f"{n}-{m}", function=member) for m in range(30)] for n in range(int(count))]
    say("ready")
    sys.stdin.readline()
    for batch in batches:
        store.commit(batch, LEASE)
    say("done")
    store.close()


if __name__ == "__main__":
    parts: dict[str, Callable[..., None]] = {
        "hold": hold,
        "fork": fork,
        "make": make,
        "saturate": saturate,
        "stand": stand,
        "remove": remove,
    }
    parts[sys.argv[1]](*sys.argv[2:])
