"""Runner processes as a test handles them: asked, stopped in the middle, killed with or without what they started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.crash.scene import until

PATIENCE_SECONDS = 120.0


class Runner:
    """A runner in a process of its own."""

    def __init__(self, store: str, *files: Path, folder: Path, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.workers.runner", store, *map(str, files)]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, **environment}
        with (folder / "errors.txt").open("ab") as errors:
            self._process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.pid = self._process.pid
        self._errors = folder / "errors.txt"
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self.is_gone = False
        """Whether the test killed it."""
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        self._next()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put(json.loads(line))
        self._heard.put(None)

    def _next(self) -> dict[str, Any]:
        heard = self._heard.get(timeout=PATIENCE_SECONDS)
        assert heard is not None, f"the runner died:\n{self._errors.read_text()[-3000:]}"
        assert "error" not in heard, heard
        return heard

    def ask(self, worker: str, inputs: Mapping[str, Any], key: str | None = None, **more: Any) -> int:
        """Send a request; its number is what the answer is asked for with."""
        self._number += 1
        wish = {"number": self._number, "worker": worker, "inputs": inputs, "idempotency_key": key, **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        self._process.stdin.flush()
        return self._number

    def answer(self, number: int) -> dict[str, Any]:
        """The response to a request."""
        while number not in self._answers:
            heard = self._next()
            self._answers[heard["number"]] = heard["response"]
        return self._answers[number]

    def run(self, worker: str, inputs: Mapping[str, Any], key: str | None = None, **more: Any) -> dict[str, Any]:
        """Ask and wait."""
        return self.answer(self.ask(worker, inputs, key, **more))

    # --- its processes

    def bodies(self) -> list[int]:
        """Its bodies, at work or spare: they are in a process namespace of their own."""
        return [pid for pid in descendants(self.pid) if len(_field(pid, "NSpid").split()) > 1]

    def tool_processes(self) -> list[int]:
        """The processes of its tools."""
        return [pid for pid in descendants(self.pid) if "tool_main.py" in command(pid)]

    def kill(self) -> None:
        """As a power cut would, this one process. What it had started ends by itself."""
        family = descendants(self.pid)
        self._process.kill()
        self._gone(family)

    def kill_all(self) -> None:
        """It and everything it started, at once."""
        family = descendants(self.pid)
        for pid in [self.pid, *family]:
            end(pid)
        self._gone(family)

    def close(self) -> None:
        """Let it end in peace."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._listening.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _gone(self, family: list[int]) -> None:
        self.is_gone = True
        self._process.wait()
        self._listening.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        until(lambda: not any(map(alive, family)), "everything it started to be gone")


def end(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """A signal to one process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


def alive(pid: int) -> bool:
    """Whether it runs; a dead process whose parent has not waited for it does not."""
    return _field(pid, "State")[:1] not in ("", "Z", "X")


def descendants(pid: int) -> list[int]:
    """All that came from a process and live."""
    parents = _parents()

    def below(of: int) -> Iterator[int]:
        for child, parent in parents.items():
            if parent == of:
                yield child
                yield from below(child)

    return [found for found in below(pid) if alive(found)]


def children(pid: int) -> list[int]:
    """Those of them that it started itself."""
    return [child for child, parent in _parents().items() if parent == pid and alive(child)]


def _parents() -> dict[int, int]:
    return {int(name): int(_field(int(name), "PPid") or 0) for name in os.listdir("/proc") if name.isdigit()}


def _field(pid: int, name: str) -> str:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith(f"{name}:")), "")


def command(pid: int) -> str:
    """Its command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def holdfast(*arguments: str, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The command line, in a process of its own."""
    command = [sys.executable, "-m", "holdfast.cli", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOLDFAST_STORE": str(folder / "s.db"), **environment}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """How it ended: exit code, output, errors."""
    out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, errors
