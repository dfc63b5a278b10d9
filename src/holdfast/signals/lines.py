"""JSON lines in a file: one document in each line. `append` returns when the line is on disk. A file can have a size limit: a full file is
renamed or removed, and a new one begins."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.files import private
from holdfast.model import codec
from holdfast.model.errors import DeliveryFailed, InvalidParameter, NotPrivate, PayloadNotJson

_NEWLINE: Final = b"\n"


class LineFile:
    """Appends documents to a file, each as one line. If a crash left an incomplete last line, that line stays as it is, and the next
    document begins on a new line."""

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int | None = None, keep: int = 5) -> None:
        """`max_bytes`: if a line would make the file larger than this, the file is first renamed to `path.1` (the old `path.1` to `path.2`,
        and so on), and a new file begins; None means no limit. `keep`: at most this many renamed files exist, and the oldest is
        overwritten; with 0 the full file is removed. Raises InvalidParameter if `max_bytes` is below 1 or `keep` is below 0."""
        if max_bytes is not None and max_bytes < 1:
            raise InvalidParameter(f"max_bytes is {max_bytes!r}; use a number that is at least 1, or None for no limit.")
        if keep < 0:
            raise InvalidParameter(f"keep is {keep!r}; use a number that is at least 0.")
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._keep = keep
        self._lock = threading.Lock()

    def append(self, document: Mapping[str, Any]) -> None:
        """Append a document as one line; the line is on disk when this returns. Raises DeliveryFailed if it cannot be written."""
        line = codec.dumps(document).encode() + _NEWLINE
        with self._lock:
            try:
                self._rotate(len(line))
                self._append(line)
            except OSError as error:
                raise DeliveryFailed(f"{self.path} could not be written: {error.strerror}.") from None
            except NotPrivate as refused:
                raise DeliveryFailed(str(refused)) from None

    def newest(self, most: int, most_bytes: int = 256 * 1024) -> list[dict[str, Any]]:
        """The documents at the end of the file, the newest first: only those in its last `most_bytes` bytes, and at most `most` of them. A
        line that is not a JSON object is left out. The list is empty if the file cannot be opened. A missing file is made."""
        try:
            file = private.open_file(self.path, os.O_RDONLY)
        except (OSError, NotPrivate):
            return []
        try:
            size = os.fstat(file).st_size
            tail = os.pread(file, most_bytes, max(0, size - most_bytes))
        finally:
            os.close(file)
        found: list[dict[str, Any]] = []
        for line in reversed(tail.split(_NEWLINE)[1 if size > most_bytes else 0 :]):
            with contextlib.suppress(PayloadNotJson, UnicodeDecodeError):
                if len(found) < most and line and isinstance(document := codec.loads(line.decode()), dict):
                    found.append(document)
        return found

    def _append(self, line: bytes) -> None:
        is_new = not self.path.exists()
        file = private.open_file(self.path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != _NEWLINE:
                line = _NEWLINE + line
            try:
                written = 0
                while written < len(line):
                    written += os.write(file, line[written:])
                os.fsync(file)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)  # remove the part of the line that was written
                raise
        finally:
            os.close(file)
        if is_new:
            self._sync_folder()

    def _rotate(self, more: int) -> None:
        if self._max_bytes is None or not self.path.exists():
            return
        size = self.path.stat().st_size
        if not size or size + more <= self._max_bytes:
            return
        for number in range(self._keep, 0, -1):
            younger = self._aside(number - 1)
            if younger.exists():
                os.replace(younger, self._aside(number))
        if not self._keep:
            self.path.unlink()
        self._sync_folder()

    def _aside(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")

    def _sync_folder(self) -> None:
        """Sync the folder to disk. A new file can get lost in a crash until its folder is synced."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
