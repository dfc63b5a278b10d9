"""Artifacts in a folder of this machine, or in one that several machines have mounted. Each artifact is two files: its bytes, and its note.
Each file gets its final name only when all of it is written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from holdfast.files import private
from holdfast.files.removal import remove
from holdfast.workers.storage.seam import ArtifactsUnusable


class Folder:
    """Artifacts in files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        """Make the folder if it is missing, and check that it can be written to. Raises ArtifactsUnusable if it cannot be made or written
        to, and NotPrivate if other users could replace files in it."""
        try:
            private.given_folder(self._path)
            with tempfile.TemporaryFile(dir=self._path):
                pass
        except OSError as error:
            raise ArtifactsUnusable(f"Artifacts cannot be kept in {self._path}: {error.strerror}.") from None

    @contextmanager
    def draft(self, home: str) -> Iterator[IO[bytes]]:
        """A block that yields a hidden file in the folder of the home, to write into. When the block ends, the file is removed unless it
        was published."""
        folder = self._path / home
        private.given_folder(folder)
        path = folder / f".{os.urandom(8).hex()}"
        try:
            with open(path, "w+b", opener=lambda new, _: private.new_file(new)) as file:
                yield file
        finally:
            path.unlink(missing_ok=True)

    def publish(self, home: str, identity: str, draft: IO[bytes], note: bytes) -> None:
        """Write the bytes to disk and give their file its name; then do the same with the note. The name of the bytes is on disk before the
        note gets its name."""
        folder, path = self._path / home, Path(draft.name)
        draft.flush()
        os.fsync(draft.fileno())
        with _opened(folder) as descriptor:
            path.rename(folder / identity)
            os.fsync(descriptor)
            noted = path.with_suffix(".note")  # not the same name for all: another process may store the same artifact now
            private.write_new(noted, note)
            noted.rename(folder / f"{identity}.json")
            os.fsync(descriptor)

    def note(self, home: str, identity: str) -> bytes | None:
        """The note of an artifact (name, media type, size and hash as JSON), a file beside the bytes; None if there is none."""
        path = self._path / home / f"{identity}.json"
        return path.read_bytes() if path.is_file() else None

    def open(self, home: str, identity: str, size: int) -> int | None:
        """The descriptor of the file itself, whatever its size; None if it cannot be opened."""
        try:
            return os.open(self._path / home / identity, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None

    def forget(self, home: str) -> None:
        """Remove the notes, and then the folder that is the home of a tenant. Errors are ignored."""
        folder = self._path / home
        with contextlib.suppress(OSError):
            with _opened(folder, os.O_NOFOLLOW) as descriptor:
                for name in os.listdir(descriptor):
                    if name.endswith(".json"):
                        os.unlink(name, dir_fd=descriptor)
                os.fsync(descriptor)
            remove(folder)


@contextmanager
def _opened(folder: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
