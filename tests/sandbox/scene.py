"""A runner in one of the settings. Told over its standard input what to try, it tells over its standard output what came of it.

One line of JSON each way: `{"entry", "arguments", "jail", "timeout", "idle_timeout", "send", "hold"}` → frames, end, time, isolation.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.hosts.sandbox import visible_folders
from holdfast.hosts.sandbox.jail import BodyEnd, Jail, SandboxUnavailable, TighterLimits
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.model.clock import monotonic
from tests.sandbox import settings


def jail_of(package: str, entry: str, **other: Any) -> Jail:
    """A jail as the tests use it."""
    given: dict[str, Any] = {"cpu_seconds": 20, "memory_mb": 128, "scratch_mb": 8, **other}
    return Jail(package=Path(package), entry=entry, path=visible_folders.packages(), readable=visible_folders.readable(), **given)


async def tried(wish: dict[str, Any]) -> dict[str, Any]:
    """One attempt, from start to end."""
    arguments = tuple(str(value).replace("{runner}", str(os.getpid())) for value in wish.get("arguments", ()))
    sandbox = Sandbox(jail_of(wish["package"], wish["entry"], arguments=arguments, **wish.get("jail", {})))
    try:
        await sandbox.start()
        attempt = await sandbox.attempt(wish.get("timeout", 60), wish.get("idle_timeout"), TighterLimits(**wish.get("tighter", {})))
        began = monotonic()
        handed = os.open(wish["hand"], os.O_RDONLY | os.O_CLOEXEC) if "hand" in wish else None
        for frame in wish.get("send", [{"op": "run"}]):
            await attempt.send(frame, handed)
        if handed is not None:
            os.close(handed)
        if wish.get("hold"):
            say({"pid": attempt.pid, "processes": family(os.getpid())})
        frames, end = await heard(attempt)
        took = monotonic() - began
    except SandboxUnavailable as error:
        return {"unavailable": str(error), "code": error.code}
    finally:
        await sandbox.close()
    return {
        "frames": frames, "code": end.code, "detail": end.detail, "seconds": took,
        "cpu": end.usage.cpu_seconds, "rss": end.usage.max_rss_mb, "isolation": attempt.isolation,
        "stdout": attempt.stdout.decode(errors="replace"),
        "left": family(os.getpid()), "alive": attempt.pid is not None and alive(attempt.pid),
    }  # fmt: skip


async def heard(attempt: JailedBody) -> tuple[list[dict[str, Any]], BodyEnd]:
    """All its frames; a descriptor is read, as far as it goes."""
    frames: list[dict[str, Any]] = []
    while not isinstance(said := await attempt.receive(), BodyEnd):
        texts = []
        for fd in said.fds:
            texts.append(os.read(fd, 100).decode())
            os.close(fd)
        frames.append({**said.data, **({"read": texts} if texts else {})})
    return frames, said


def family(runner: int) -> list[int]:
    """The stub of a runner and all that came from it: they share its command line until they run another program."""
    return [pid for pid, line in _commands() if b"stub.py" in line and line.rstrip(b"\0").endswith(b"\0%d" % runner)]


def alive(pid: int) -> bool:
    """Does it run? One that is dead and not yet taken leave of does not."""
    try:
        return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False


def named(word: str) -> list[int]:
    """Processes that carry this word in their command line."""
    return [pid for pid, line in _commands() if word.encode() in line and pid != os.getpid()]


def _commands() -> Iterator[tuple[int, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                yield int(name), Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue


def say(message: dict[str, Any]) -> None:
    """One line out."""
    os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve wishes until standard input ends."""
    settings.become(sys.argv[1], [*visible_folders.readable(), *visible_folders.packages(), Path(sys.executable)])
    assert threading.active_count() == 1
    say({"ready": os.getuid()})
    for line in sys.stdin:
        try:
            say({**asyncio.run(tried(json.loads(line))), "used": sum(os.times()[:4])})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
            raise


if __name__ == "__main__":
    main()
