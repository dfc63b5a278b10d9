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
from holdfast.model.deploy_errors import CodeInvalid
from holdfast.model.threads import Purpose, in_thread

_LOOK_SECONDS: Final = 0.5
_TICK_MS: Final = 20
"""The time of change of a file may be earlier than the change itself by this much: Linux takes the time of the last tick of its timer."""
_RECORDS: Final = frozenset({".log", ".out", ".err", ".jsonl"})
"""The endings of log files of running programs, also of this server. Such a file may be in the folder of the code, but a change of it is
not a change of the code."""

FileStamps = frozenset[tuple[str, int, int]]


def look(paths: Sequence[Path], leave_out: Collection[Path] = (), before: int | None = None) -> FileStamps:
    """All files below these paths, each with its time of change and its size. Log files, files and folders in `leave_out` or with a name in
    `code_files.LEFT_OUT`, and folders that cannot be read or exceed a limit are left out. A file that is itself in `paths` is not left out
    because of `leave_out`. `before`: a time in milliseconds since 1970. Files that changed later are left out, so that the next look finds
    them changed. None: no file is left out because of its time."""
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
            if before is None or told.st_mtime_ns < (before - _TICK_MS) * 1_000_000:
                found.add((str(file), told.st_mtime_ns, told.st_size))
    return frozenset(found)


def printed_to(descriptors: Iterable[int] = (1, 2)) -> list[Path]:
    """The files to which this process prints, if its output goes to files; empty on a system without `/proc`. They must not be watched:
    each printed line would be a change, and the message about this change would be the next change."""
    found = []
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


async def changes(
    paths: Sequence[Path], leave_out: Collection[Path] = (), seen: FileStamps | None = None, *, seconds: float = _LOOK_SECONDS
) -> AsyncIterator[None]:
    """Yields None each time that files have changed. An editor may write several files one after the other. So after a change the iterator
    waits until two looks in a row find the same files, and then yields. The caller may change `paths` meanwhile: each look reads it again.
    `seen`: what an earlier look found; a change since then counts. None: only changes after the iteration has begun count."""
    pause = 0.0
    if seen is None:
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
    """What a look found, and how many seconds to wait before the next look. The wait is at least nine times as long as the look took."""
    began = monotonic()
    found = await in_thread(Purpose.HOUSE, look, paths, leave_out)
    return found, max(seconds, 9 * (monotonic() - began))
