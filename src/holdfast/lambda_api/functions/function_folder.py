"""The folder in which deployed functions are kept, beside the store.

    functions/NAME-HASH.json    one document per function, replaced as a whole
    code/ID/                    the code whose hash gives the id; written once, and again only if its files have changed
    code/ID.sha256              the hash of the files in code/ID, compared before any of them runs
    making/                     unfinished files; emptied when the folder is opened

Every file is written in making/, synced, and then renamed to its place. Code is written before the document that names it. So if
the process is killed, the folder has the old state or the new one. It may have code that no document names; `read` removes such code.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from holdfast.files import private
from holdfast.files.removal import remove
from holdfast.lambda_api.functions import code_files
from holdfast.lambda_api.functions.function_records import Code, DeployedFunction
from holdfast.model import json_structs
from holdfast.model.deploy_errors import CodeInvalid
from holdfast.model.errors import DiskFailed, StoreBroken, StoreBusy

_SUFFIX: Final = ".json"
_NOTED: Final = ".sha256"


def folder_of(store: str) -> Path | None:
    """The folder for the deployed functions of a store: beside the file of an SQLite store, or in the current folder for a Postgres store.
    None for a store in memory."""
    if store == ":memory:":
        return None
    return Path("holdfast.functions").absolute() if "://" in store else Path(f"{store}.functions").absolute()


class CodeCache:
    """Remembers the code that was read, for example during one start or one reload of the server, so that code that many functions share is
    read once."""

    def __init__(self) -> None:
        self.sources: dict[Path, Code] = {}
        """The code that was read, by the path of its folder or zip file."""
        self.intact: dict[str, bool] = {}
        """Whether the files of kept code are as they were deployed, by the id of the code."""


class FunctionFolder:
    """The folder of deployed functions. Only one process at a time may use it. The folder is made when the first code or the first function
    is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._functions = folder / "functions"
        self._code = folder / "code"
        self._making = folder / "making"
        self._lock: int | None = None

    def read(self) -> dict[str, DeployedFunction]:
        """All functions, by name, also deleted ones. Unfinished files of an earlier process, and code that no version uses, are removed.
        Raises StoreBusy if another process uses the folder, StoreBroken if a document is damaged, and DiskFailed if the disk fails."""
        if not self.folder.exists():
            return {}
        with _told(self.folder):
            self._own()
            found = [self._document(path) for path in sorted(self._functions.glob(f"*{_SUFFIX}"))]
            for draft in self._making.iterdir():
                remove(draft)
        self.sweep({version.code.id for entry in found for version in entry.everything()})
        return {entry.name: entry for entry in found}

    def _document(self, path: Path) -> DeployedFunction:
        try:
            return json_structs.decoded(path.read_bytes(), DeployedFunction)
        except msgspec.MsgspecError as error:
            raise StoreBroken(f"{path} is not the document of a function: {error}. Restore it, or move it away.") from None

    def write(self, entry: DeployedFunction) -> None:
        """Write the document of a function to disk. It replaces the earlier document as a whole."""
        with _told(self.folder):
            self._own()
            name = f"{entry.name}-{hashlib.sha256(entry.name.encode()).hexdigest()[:8]}{_SUFFIX}"
            draft = self._making / name
            draft.unlink(missing_ok=True)
            private.write_new(draft, msgspec.json.format(msgspec.json.encode(entry), indent=2))
            draft.replace(self._functions / name)
            _sync(self._functions)

    def add_zip(self, packed: bytes, looked: CodeCache | None = None) -> Code:
        """Copy the code of a zip file (`packed` is its content) into the folder, unless an unchanged copy is there. If `looked` knows
        whether that copy is unchanged, its files are not read again. Raises CodeInvalid if the zip file cannot be used."""
        code = code_files.code_of_zip(packed)
        return self._add(code, lambda draft: code_files.unpack(packed, draft), looked or CodeCache())

    def add_zip_file(self, file: Path, looked: CodeCache | None = None) -> Code:
        """Copy the code of a zip file on disk into the folder, unless an unchanged copy is there. If `looked` has this file, it is not read
        again. Raises CodeInvalid if the zip file cannot be used."""
        looked = looked or CodeCache()
        if file not in looked.sources:
            looked.sources[file] = self._read_zip_file(file, looked)
        return looked.sources[file]

    def _read_zip_file(self, file: Path, looked: CodeCache) -> Code:
        try:
            if file.stat().st_size > code_files.MAX_ZIP_BYTES:
                raise CodeInvalid(f"{file} has more than {code_files.MAX_ZIP_BYTES} bytes, which is the most that a zip file may have.")
            return self.add_zip(file.read_bytes(), looked)
        except OSError as error:
            raise CodeInvalid(f"{file} could not be read: {error.strerror}.") from None

    def add_folder(self, folder: Path, leave_out: Collection[Path] = (), looked: CodeCache | None = None) -> Code:
        """Copy the code in `folder`, as it is now, into the folder of deployed functions, if it is not there yet. Files and folders in
        `leave_out` are not copied. If `looked` has this folder, it is not read again. Raises CodeInvalid if the code cannot be used, or
        changes while it is read."""
        looked = looked or CodeCache()
        if folder in looked.sources:
            return looked.sources[folder]
        without = {*leave_out, self.folder}
        for _ in range(3):
            code = code_files.code_of_folder(folder, without)
            if self._add(code, lambda draft: code_files.copy_folder(folder, draft, without), looked) == code:
                looked.sources[folder] = code
                return code
        raise CodeInvalid(f"{folder} changes while it is read. Try again when no program writes to it.")

    def add_text(self, name: str, text: str, looked: CodeCache | None = None) -> Code:
        """Write code that is one file into the folder, unless an unchanged copy is there. `name` is the name of the file, `text` its
        content. If `looked` knows whether that copy is unchanged, the copy is not read again."""
        digest = hashlib.sha256(f"{name}\n{text}".encode())
        code = Code(digest.hexdigest(), base64.b64encode(digest.digest()).decode(), len(text.encode()))
        return self._add(code, lambda draft: private.write_new(draft / name, text.encode()), looked or CodeCache())

    def code_folder(self, code: Code) -> Path:
        """The folder with the files of this code."""
        return self._code / code.id

    def intact(self, code: Code, looked: CodeCache | None = None) -> bool:
        """Whether the files of this code in the folder are still as they were deployed. False also if they or their hash cannot be read.
        If `looked` has the answer for this code, the files are not read again. Blocks. Bytecode that earlier runs left is removed first,
        because Python would run it instead of the code."""
        looked = looked or CodeCache()
        if code.id not in looked.intact:
            looked.intact[code.id] = self._is_intact(code)
        return looked.intact[code.id]

    def _is_intact(self, code: Code) -> bool:
        place = self.code_folder(code)
        code_files.remove_bytecode(place)
        try:
            return code_files.content_of(place) == self._noted(code).read_text()
        except (CodeInvalid, OSError):
            return False

    def _noted(self, code: Code) -> Path:
        return self._code / f"{code.id}{_NOTED}"

    def _note(self, code: Code, content: str) -> None:
        """Write the hash of code into a file beside it. After a crash the file has the old hash or the new one."""
        draft = self._making / f"{code.id}{_NOTED}"
        remove(draft)
        private.write_new(draft, content.encode())
        draft.replace(self._noted(code))

    def close(self) -> None:
        """Release the lock, so that another process may use this folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _add(self, code: Code, fill: Callable[[Path], Code | None], looked: CodeCache) -> Code:
        """Copy code into the folder, unless an unchanged copy is there already. `fill` writes the files of the code into the folder that it
        gets. Returns the code. If the source of the code changed while it was copied, nothing is kept, and the returned code has another id
        than `code`."""
        place = self.code_folder(code)
        if place.exists() and self.intact(code, looked):
            return code
        with _told(self.folder):
            self._own()
            draft = self._making / code.id
            remove(draft)
            private.own_folder(draft)
            try:
                filled = fill(draft)
                if filled is not None and filled.id != code.id:
                    remove(draft)
                    return filled
                for folder, _, _ in os.walk(draft):
                    _sync(Path(folder))
                self._note(code, code_files.content_of(draft))
                remove(place)  # files that are there already are not intact
                draft.rename(place)
            except BaseException:
                with contextlib.suppress(OSError):
                    remove(draft)
                raise
            _sync(self._code)
        looked.intact[code.id] = True
        return code

    def _own(self) -> None:
        """Make the folder if it is missing, and lock it for this process. Raises StoreBusy if another process has the lock."""
        if self._lock is not None:
            return
        for folder in (self.folder, self._functions, self._code, self._making):
            private.own_folder(folder)
            _sync(folder.parent)
        lock = private.open_file(self.folder / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise StoreBusy(
                f"Another server uses the functions in {self.folder}. Stop it first, or use another store (with Postgres: start in another "
                "folder)."
            ) from None
        self._lock = lock

    def sweep(self, used: Collection[str]) -> None:
        """Remove all code from the folder whose id is not in `used`."""
        with _told(self.folder):
            for code in self._code.iterdir():
                if code.name.removesuffix(_NOTED) not in used:
                    with contextlib.suppress(OSError):
                        code.unlink() if code.name.endswith(_NOTED) else remove(code)


def _sync(folder: Path) -> None:
    """Sync a folder, so that files made or renamed in it are on disk."""
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
        raise DiskFailed(f"The folder of deployed functions {folder} could not be read or written: {error.strerror or error}.") from error
