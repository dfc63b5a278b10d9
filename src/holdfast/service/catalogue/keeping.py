"""Where deployed functions are kept: a folder beside the store.

    functions/NAME-HASH.json    one document per function, replaced as a whole
    code/ID/                    code by what it is, never changed
    making/                     what is not finished; emptied when the folder is opened

Everything is written beside its place, synced, and then renamed into it; code comes before the document that names it. So a kill at any
moment leaves the old or the new, and at worst code that nobody names, which the next opening removes.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from holdfast.model.errors import CodeInvalid, DiskFailed, StoreBroken, StoreBusy
from holdfast.service.catalogue import packing
from holdfast.service.catalogue.records import Code, Entry

_SUFFIX: Final = ".json"


def folder_of(store: str) -> Path | None:
    """Where the functions of a store are kept: beside its file; for a database, in the current folder; for memory, nowhere."""
    if store == ":memory:":
        return None
    return Path("holdfast.functions").absolute() if "://" in store else Path(f"{store}.functions").absolute()


class Keeper:
    """The folder. One process at a time writes to it; it is made with the first thing that is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._functions = folder / "functions"
        self._code = folder / "code"
        self._making = folder / "making"
        self._lock: int | None = None

    def read(self) -> dict[str, Entry]:
        """All functions. What an earlier process did not finish is removed."""
        if not self.folder.exists():
            return {}
        with _told(self.folder):
            self._own()
            found = [self._document(path) for path in sorted(self._functions.glob(f"*{_SUFFIX}"))]
            for draft in self._making.iterdir():
                shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        self.sweep({version.code.id for entry in found for version in entry.everything()})
        return {entry.name: entry for entry in found}

    def _document(self, path: Path) -> Entry:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Entry)
        except msgspec.MsgspecError as error:
            raise StoreBroken(f"{path} is not the document of a function: {error}. Restore it, or move it away.") from None

    def write(self, entry: Entry) -> None:
        """Keep a function as it is now."""
        with _told(self.folder):
            self._own()
            name = f"{entry.name}-{hashlib.sha256(entry.name.encode()).hexdigest()[:8]}{_SUFFIX}"
            draft = self._making / name
            with draft.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(entry), indent=2))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._functions / name)
            _sync(self._functions)

    def add_zip(self, packed: bytes) -> Code:
        """Keep the code of a zip file."""
        code = packing.code_of_zip(packed)
        self._add(code, lambda draft: packing.unpack(packed, draft))
        return code

    def add_zip_file(self, file: Path) -> Code:
        """Keep the code of a zip file on disk."""
        try:
            if file.stat().st_size > packing.MAX_ZIP_BYTES:
                raise CodeInvalid(f"{file} has more than {packing.MAX_ZIP_BYTES} bytes.")
            return self.add_zip(file.read_bytes())
        except OSError as error:
            raise CodeInvalid(f"{file} could not be read: {error.strerror}.") from None

    def add_folder(self, folder: Path, leave_out: Collection[Path] = ()) -> Code:
        """Keep the code in a folder, as it is now."""
        without = {*leave_out, self.folder}
        code = packing.code_of_folder(folder, without)
        for _ in range(3):
            self._add(code, lambda draft: packing.copy_folder(folder, draft, without))
            kept, code = code, packing.code_of_folder(folder, without)
            if kept == code:
                return code
        raise CodeInvalid(f"{folder} changes while it is read. Try again when it rests.")

    def add_text(self, name: str, text: str) -> Code:
        """Keep code that is one file."""
        digest = hashlib.sha256(f"{name}\n{text}".encode())
        code = Code(digest.hexdigest(), base64.b64encode(digest.digest()).decode(), len(text.encode()))
        self._add(code, lambda draft: _write_text(draft / name, text))
        return code

    def code_folder(self, code: Code) -> Path:
        """Where code is."""
        return self._code / code.id

    def close(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _add(self, code: Code, fill: Callable[[Path], None]) -> None:
        place = self.code_folder(code)
        if place.exists():
            return
        with _told(self.folder):
            self._own()
            draft = self._making / code.id
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            try:
                fill(draft)
                for folder, _, _ in os.walk(draft):
                    _sync(Path(folder))
                draft.rename(place)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            _sync(self._code)

    def _own(self) -> None:
        """Be the one who writes here."""
        if self._lock is not None:
            return
        for folder in (self.folder, self._functions, self._code, self._making):
            folder.mkdir(parents=True, exist_ok=True)
            _sync(folder.parent)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreBusy(f"Another server has the functions in {self.folder}. Stop it first, or use another store.") from None
        self._lock = lock

    def sweep(self, used: Collection[str]) -> None:
        """Remove all code but this."""
        with _told(self.folder):
            for code in self._code.iterdir():
                if code.name not in used:
                    shutil.rmtree(code, ignore_errors=True)


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Let what was made or renamed in a folder be on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskFailed(f"The functions in {folder} could not be kept: {error.strerror or error}.") from error
