"""Watches files for changes by polling, which works on every file system, also on those without change notifications."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from holdfast.lambda_api.functions.code_files import files_of
from holdfast.model.clock import monotonic
from holdfast.model.errors import CodeInvalid
from holdfast.model.threads import Purpose, in_thread

_LOOK_SECONDS: Final = 0.5
_RECORDS: Final = frozenset({".log", ".out", ".err", ".jsonl"})
"""Log files of running programs, this server too. They may be in the folder of the code, and their changes are no change of the code."""

FileStamps = frozenset[tuple[str, int, int]]


def look(paths: Sequence[Path], leave_out: Collection[Path] = ()) -> FileStamps:
    """The files below these paths, with their times and sizes."""
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
    """The files that this process prints to. Else each printed line would count as a change, and printing that change would be another."""
    found = []
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


async def changes(paths: Sequence[Path], leave_out: Collection[Path] = (), *, seconds: float = _LOOK_SECONDS) -> AsyncIterator[None]:
    """Yields when files have changed and then stayed the same for one look, because an editor writes several files. `paths` may change."""
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


async def _paced(paths: Sequence[Path], leave_out: Collection[Path], seconds: float) -> tuple[FileStamps, float]:
    """The files, and how long to wait before the next look. Looking takes at most a tenth of the time."""
    began = monotonic()
    found = await in_thread(Purpose.HOUSE, look, paths, leave_out)
    return found, max(seconds, 9 * (monotonic() - began))
