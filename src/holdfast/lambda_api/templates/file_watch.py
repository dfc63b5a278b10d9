"""Watching files for changes, by looking: it works on every file system, also on those that tell nobody."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from holdfast.lambda_api.functions.packing import files_of
from holdfast.model.clock import monotonic
from holdfast.model.errors import CodeInvalid
from holdfast.model.threads import Purpose, in_thread

_LOOK_SECONDS: Final = 0.5
_RECORDS: Final = frozenset({".log", ".out", ".err", ".jsonl"})
"""What programs write about themselves while they run, this one too. It lies beside code, and is no reason to publish it anew."""

Look = frozenset[tuple[str, int, int]]


def look(paths: Sequence[Path], leave_out: Collection[Path] = ()) -> Look:
    """The files at these places, with their times and sizes."""
    found = set()
    for path in paths:
        try:
            files = [path] if path.is_file() else [file for _, file in files_of(path.resolve(), leave_out)]
        except CodeInvalid:
            continue
        for file in files:
            if file.suffix in _RECORDS:
                continue
            try:
                told = file.stat()
            except OSError:
                continue
            found.add((str(file), told.st_mtime_ns, told.st_size))
    return frozenset(found)


def printed_to(descriptors: Iterable[int] = (1, 2)) -> list[Path]:
    """The files that we print to. Each line in them would be a change of the code beside them, which is told in one more line."""
    found = []
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


async def changes(paths: Sequence[Path], leave_out: Collection[Path] = (), *, seconds: float = _LOOK_SECONDS) -> AsyncIterator[None]:
    """Yields when something has changed and then rested for one look: an editor writes more than one file. The list may change."""
    seen, pause = await _paced(paths, leave_out, seconds)
    while True:
        await asyncio.sleep(pause)
        now, pause = await _paced(paths, leave_out, seconds)
        if now == seen:
            continue
        while True:
            await asyncio.sleep(pause)
            later, pause = await _paced(paths, leave_out, seconds)
            if later == now:
                break
            now = later
        seen = now
        yield


async def _paced(paths: Sequence[Path], leave_out: Collection[Path], seconds: float) -> tuple[Look, float]:
    """What is there, and how long to rest before the next look: looking takes one part in ten of the time at most."""
    began = monotonic()
    found = await in_thread(Purpose.HOUSE, look, paths, leave_out)
    return found, max(seconds, 9 * (monotonic() - began))
