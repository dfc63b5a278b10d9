"""Processes that all tests of a run share: a Postgres, a warm `holdfast`.

The first test that needs one starts it, and it ends with the run, however that ends: its standard input is a pipe whose other end only
the first process of the run has.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

_ends: list[int] = []
_folder: list[Path] = []


def begin(folder: Path) -> None:
    """Called before a run forks: its forks share what is written in this folder."""
    _folder.append(folder)
    _ends.extend(os.pipe())


def forked() -> None:
    """Called in a fork: it does not keep what the run shares alive."""
    os.close(_ends[1])


def once(name: str, start: Callable[[int], str]) -> str:
    """What `start` returned in the first process of this run that asked. It is given the standard input of the process that it starts."""
    if not _ends:
        _ends.extend(os.pipe())
    if not _folder:
        return start(_ends[0])
    with (_folder[0] / f"{name}.shared").open("a+") as told:
        fcntl.flock(told, fcntl.LOCK_EX)
        told.seek(0)
        if not (answer := told.read()):
            told.write(answer := start(_ends[0]))
        return answer
