"""Jail: what a worker version may see and use. BodyEnd: how an attempt in the jail ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from holdfast.model.errors import Rejected

EndCode = Literal[
    "timeout", "idle_timeout", "memory_exceeded", "cpu_exceeded", "disk_exceeded", "process_limit", "limits_unreadable", "worker_crashed",
    "cancelled",
]  # fmt: skip
"""Why an attempt ended or was ended."""


class SandboxUnavailable(Rejected):
    """The worker cannot be run in a sandbox on this machine, or the sandbox is closed.

    If kernel features are missing, the message names them, and `--isolation process` runs the worker without a jail.
    """

    code = "sandbox_unavailable"


class Jail(Struct, frozen=True, kw_only=True):
    """The jail of one worker version: what its bodies may see and use, and which function is called in them."""

    package: Path
    """A read-only snapshot of its code (snapshot.py)."""
    entry: str
    """`module:function`: the function is imported inside the jail, and called with the descriptor of the body's channel and with
    `arguments`."""
    arguments: tuple[str, ...] = ()
    python: Path = Path(sys.executable)
    path: tuple[Path, ...] = ()
    """Folders from which the body may import, besides the standard library and its package. They are trusted: the stub imports `preload`
    from them."""
    readable: tuple[Path, ...] = ()
    """Other paths that the body may read. `visible_folders.readable` returns the paths that the interpreter needs."""
    preload: tuple[str, ...] = ()
    """Trusted modules that the stub imports once for all attempts."""
    memory_mb: int = 512
    cpu_seconds: float = 60
    """The CPU seconds that an attempt may use. What a spare uses before its attempt begins, for its import, has the same limit and is
    counted separately. An import after the attempt has begun is counted as a part of the attempt."""
    scratch_mb: int = 64
    open_files: int = 128
    allow_children: bool = False
    processes: int = 32
    """The most processes at one time, the body included, when children are allowed."""
    stdout_bytes: int = 64 * 1024
    frame_bytes: int = 1024 * 1024
    frames_per_second: int = 1000
    isolation: Literal["all", "process"] = "all"


class TighterLimits(Struct, frozen=True, kw_only=True):
    """Tighter limits for one attempt. None, or a value above the jail's limit, means the jail's limit. With `no_children` the body may
    start no processes."""

    memory_mb: int | None = None
    cpu_seconds: float | None = None
    no_children: bool = False


class Frame(Struct, frozen=True):
    """One message of the body. Its descriptors are regular files, open for reading; the receiver must close them."""

    data: dict[str, Any]
    fds: tuple[int, ...] = ()


class BodyUsage(Struct, frozen=True):
    """The CPU time and the memory that an attempt used."""

    cpu_seconds: float = 0.0
    max_rss_mb: float = 0.0


class BodyEnd(Struct, frozen=True):
    """How an attempt ended; none of its processes is left. If `code` is None, the body ended by itself and without an error."""

    code: EndCode | None
    detail: str
    usage: BodyUsage
