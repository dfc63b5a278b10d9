"""Runs peers in their own environments. An environment is made once, kept in a folder, and reused while its requirements are the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.terms import Sizes

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".bench"
LONGEST_SECONDS: Final = 1_800
Figures = dict[str, list[float]]


class Missing(Exception):
    """This peer cannot be measured here; one line says why."""


class Failed(Exception):
    """This peer could not do one workload; one line says why."""


class Contestant(Protocol):
    """A system that can be measured beside Holdfast."""

    @property
    def name(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def workloads(self) -> Sequence[str]: ...
    def figures(self, workload: str, where: str, sizes: Sizes) -> Figures: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A program in bench/peers, with the packages that `<program>.txt` names."""

    name: str
    program: str
    workloads: Sequence[str]
    setup: str
    """How it runs, for the notes of the table."""
    npm: str = ""
    """A package that comes by npm, with its version."""

    @property
    def note(self) -> str:
        """Its version and how it runs."""
        pinned = self.requirements.read_text(encoding="utf-8").partition("\n")[0]
        version = self.npm.rpartition("@")[2] or pinned.partition("==")[2]
        return f"{self.name} {version}: {self.setup}"

    @property
    def requirements(self) -> Path:
        """Names and versions, the peer's own first."""
        return Path(__file__).with_name(f"{self.program}.txt")

    def figures(self, workload: str, where: str, sizes: Sizes) -> Figures:
        """Its samples by key, measured now, in a folder or on a Postgres."""
        python = environment(CACHE / self.program, self.requirements, self.name, self.npm)
        return said(run([python, "-m", f"bench.peers.{self.program}", workload, where, sizes.to_json()], self.name, workload))


PEERS: Final = (
    Peer(
        name="DBOS",
        program="dbos",
        workloads=("W1", "W2", "W3", "W4", "W5", "W6", "queues", "Postgres"),
        setup="async workflows on SQLite, WAL, synchronous=FULL; a queue polls every 10 ms; the Postgres lines on the same Postgres",
    ),
    Peer(
        name="AWS SDK",
        program="aws_sdk",
        workloads=("W1", "W2", "W3", "W6", "HTTP"),
        setup="on its local test runner with SQLite, WAL, synchronous=NORMAL (the runner's own: a power cut may take back the last steps);"
        " HTTP on its emulator's web server with the same store, the same handlers in as many processes",
    ),
    Peer(
        name="Celery",
        program="celery",
        workloads=("queues",),
        setup="one worker with a process for each core, acks late, on Redis 6.2 with appendfsync=always; it keeps results",
    ),
)
MORE_PEERS: Final = (
    *PEERS,
    Peer(
        name="Restate",
        program="restate",
        workloads=("W1", "W2", "W3", "W6"),
        setup="its server as it comes, a service of its Python SDK 1.2.0 on granian",
        npm="@restatedev/restate-server@1.7.12",
    ),
)
"""All peers, also those that need more than Python and pip."""


def environment(place: Path, requirements: Path, name: str, npm: str = "") -> Path:
    """The Python of an environment with exactly these packages. What is there already is used as it is."""
    wanted, stamp, python = requirements.read_text(encoding="utf-8") + npm, place / "requirements.txt", place / "bin" / "python"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    try:
        installed = _command([*_make(place), "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
        if npm and not installed.returncode:
            installed = _command(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, npm])
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"{name} is not measured: its environment could not be made: {_last_line(str(error))}") from error
    if installed.returncode:
        raise Missing(f"{name} is not measured: it could not be installed: {_last_line(installed.stderr)}")
    stamp.write_text(wanted, encoding="utf-8")  # last, so that half an environment is not taken for a whole one
    return python


def _make(place: Path) -> list[str | Path]:
    """A new environment, and the pip that installs into it. Debian's Python may lack ensurepip: then the outer pip does it."""
    python = place / "bin" / "python"
    if _command([sys.executable, "-m", "venv", place]).returncode == 0:
        return [python, "-m", "pip"]
    _command([sys.executable, "-m", "venv", "--clear", "--without-pip", place]).check_returncode()
    return [Path(sys.base_prefix) / "bin" / "python3", "-m", "pip", "--python", python]


def run(command: Sequence[str | Path], name: str, workload: str) -> str:
    """What a peer's program printed."""
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True, timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired as slow:
        raise Failed(f"{name} did not finish {workload} in {slow.timeout:,.0f} s.") from slow
    if ended.returncode:
        raise Failed(f"{name} failed at {workload}: {_last_line(ended.stderr)}")
    return ended.stdout


def said(output: str) -> Figures:
    """The figures in the last line of a program's output. Earlier lines are ignored."""
    figures: Figures = json.loads(output.strip().splitlines()[-1])
    return figures


def _command(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, check=False, text=True)


def _last_line(text: str) -> str:
    """The last line of an error, without the paths of this machine, because it is published."""
    lines = [line for line in text.strip().splitlines() if line.strip() and "WARNING" not in line]
    return lines[-1].strip().replace(str(ROOT), ".") if lines else "it printed nothing"
