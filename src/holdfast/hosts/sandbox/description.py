"""What a jail is, and how an attempt in it can end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holdfast.model.errors import Rejected

Code = Literal[
    "timeout", "idle_timeout", "memory_exceeded", "cpu_exceeded", "disk_exceeded", "process_limit", "limits_unreadable", "worker_crashed",
    "cancelled",
]  # fmt: skip
"""Why an attempt was ended, or ended itself."""


class SandboxUnavailable(Rejected):
    """This machine cannot lock the worker in; `--isolation process` runs it without."""

    code = "sandbox_unavailable"


class Jail(Struct, frozen=True, kw_only=True):
    """One worker version: what it may see, what it may use, and what is called in it."""

    package: Path
    """A read-only snapshot of its code (snapshot.py)."""
    entry: str
    """`module:function`, imported behind the locks and called with the descriptor of its channel and the arguments."""
    arguments: tuple[str, ...] = ()
    python: Path = Path(sys.executable)
    path: tuple[Path, ...] = ()
    """Where it may import from besides the standard library and its package. Trusted: the stub imports `preload` from there."""
    readable: tuple[Path, ...] = ()
    """What else it may read (surroundings.py finds the interpreter's own)."""
    preload: tuple[str, ...] = ()
    """Trusted modules that the stub imports once, so that no attempt has to."""
    memory_mb: int = 512
    cpu_seconds: float = 60
    """For the attempt; the import may use as much again."""
    scratch_mb: int = 64
    open_files: int = 128
    allow_children: bool = False
    processes: int = 32
    """How many it may have at once, itself included, when children are allowed."""
    stdout_bytes: int = 64 * 1024
    frame_bytes: int = 1024 * 1024
    frames_per_second: int = 1000
    isolation: Literal["all", "process"] = "all"


class Tighter(Struct, frozen=True, kw_only=True):
    """What one attempt may use less than its jail allows. None, and what would be more, is as the jail says."""

    memory_mb: int | None = None
    cpu_seconds: float | None = None
    no_children: bool = False


class Frame(Struct, frozen=True):
    """What the body said. Descriptors are regular files, open for reading, and the receiver's to close."""

    data: dict[str, Any]
    fds: tuple[int, ...] = ()


class Usage(Struct, frozen=True):
    """What an attempt took."""

    cpu_seconds: float = 0.0
    max_rss_mb: float = 0.0


class Ended(Struct, frozen=True):
    """Nothing of the attempt is left. No code: the body returned by itself."""

    code: Code | None
    detail: str
    usage: Usage
