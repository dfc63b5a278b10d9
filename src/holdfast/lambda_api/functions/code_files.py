"""Uploaded code: a zip file or a folder is copied into a folder of Holdfast. If the code exceeds a limit, it is refused.

A zip file may be hostile: it may contain paths that lead out of its folder, links, devices, and files that are larger than its directory
says. A folder belongs to the operator, so links in it are followed. But its size is limited too, because an operator may name the whole
disk by mistake.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final

from holdfast.files import private
from holdfast.files.removal import remove
from holdfast.lambda_api.functions.function_records import Code
from holdfast.model.deploy_errors import CodeInvalid

MAX_ZIP_BYTES: Final = 48 * 1024 * 1024
MAX_BYTES: Final = 250 * 1024 * 1024
"""The largest size of unpacked code, in bytes. AWS has the same limit."""
MAX_FILES: Final = 50_000
MAX_DEPTH: Final = 40
LEFT_OUT: Final = frozenset(
    {".git", ".hg", ".svn", ".aws-sam", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".DS_Store"}
)
"""Files and folders with these names are left out when the code in a folder is read or copied."""
_TROUBLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
"""Error numbers that say that the disk has a problem, not the code."""
_BYTECODE: Final = "__pycache__"
_PIECE: Final = 1 << 20
_SPECIAL: Final = frozenset("\0\r\n")


def code_of_zip(packed: bytes) -> Code:
    """The id, hash and size of a zip file's code. Raises CodeInvalid if the zip file is too large."""
    if len(packed) > MAX_ZIP_BYTES:
        raise CodeInvalid(f"The zip file has {len(packed)} bytes; at most {MAX_ZIP_BYTES} are allowed.")
    digest = hashlib.sha256(packed).digest()
    return Code(digest.hex(), base64.b64encode(digest).decode(), len(packed))


def unpack(packed: bytes, into: Path) -> None:
    """Write the files of a zip file into a folder that exists and is empty. Raises CodeInvalid if the zip file is damaged, too large, or
    has an entry that is not allowed, and OSError if the disk has a problem."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES:
                raise CodeInvalid(f"The zip file has {len(entries)} entries; at most {MAX_FILES} are allowed.")
            left = MAX_BYTES
            for entry in entries:
                left -= _unpack_one(archive, entry, into, left)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise CodeInvalid(f"Could not unzip uploaded file. Please check your file, then try to upload again. ({error})") from None
    except Exception as error:  # zlib, lzma and bz2 have errors of their own
        if isinstance(error, CodeInvalid | OSError):
            raise
        raise CodeInvalid(f"Could not unzip uploaded file. Please check your file, then try to upload again. ({error})") from None


def _unpack_one(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path, room: int) -> int:
    path = into / _inside(entry.filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise CodeInvalid(f"{entry.filename!r:.200} in the zip file is neither a file nor a folder.")
    try:
        if entry.is_dir():
            private.given_folder(path)
            return 0
        private.given_folder(path.parent)
        executable = bool(entry.external_attr >> 16 & 0o111)
        with archive.open(entry) as packed, os.fdopen(private.new_file(path, executable=executable), "wb") as file:
            return _copy(packed, file, room, "The zip file")
    except (FileExistsError, NotADirectoryError):
        raise CodeInvalid(
            f"{entry.filename!r:.200} is in the zip file twice, or it needs a folder where the zip file has a file."
        ) from None
    except OSError as error:
        if error.errno in _TROUBLE:
            raise
        raise CodeInvalid(f"{entry.filename!r:.200} in the zip file cannot be written: {error.strerror}.") from None


def _inside(name: str) -> PurePosixPath:
    """The path of an entry, relative to the folder. Raises CodeInvalid if it is empty, could lead out of the folder, has a backslash or a
    line break, or is nested too deep. The module zipfile has already cut the name at a NUL character."""
    path = PurePosixPath(name)
    if not name or "\\" in name or path.is_absolute() or ".." in path.parts or _SPECIAL & set(name) or name[1:2] == ":":
        raise CodeInvalid(f"{name!r:.200} in the zip file leads out of it, is empty, or has a backslash, a drive letter or a line break.")
    if len(path.parts) > MAX_DEPTH or not path.parts:
        raise CodeInvalid(f"{name!r:.200} in the zip file is not a valid path: it must have 1 to {MAX_DEPTH} names between slashes.")
    return path


def _copy(source: IO[bytes], file: IO[bytes], room: int, what: str, content: hashlib._Hash | None = None) -> int:
    size = 0
    while piece := source.read(_PIECE):
        size += len(piece)
        if size > room:
            raise CodeInvalid(f"{what} is larger than {MAX_BYTES} bytes when it is unpacked.")
        file.write(piece)
        if content is not None:
            content.update(piece)
    file.flush()
    os.fsync(file.fileno())
    return size


# --- folders


def code_of_folder(folder: Path, leave_out: Collection[Path] = ()) -> Code:
    """The id, hash and size of a folder's code. The hash is made from the names and contents of its files, and from whether each is
    executable. Files and folders in `leave_out` are not part of the code. Raises CodeInvalid if a file cannot be read, or the folder
    exceeds a limit."""
    whole, size = hashlib.sha256(), 0
    for name, path in files_of(folder, leave_out):
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
                told = os.fstat(file.fileno())
        except OSError as error:
            raise CodeInvalid(f"{path} cannot be read: {error.strerror}.") from None
        size += told.st_size
        _add_file(whole, name, bool(told.st_mode & 0o100), content)
    return _code(whole, size)


def content_of(folder: Path) -> str:
    """The hash of all files below a folder that Holdfast wrote: names, contents, and whether each file is executable. Raises CodeInvalid if
    it finds a link or a device, because Holdfast never writes these. Raises OSError if a file cannot be read."""
    whole = hashlib.sha256()
    for above, folders, names in os.walk(folder, onerror=_raised):
        folders.sort()
        for name in sorted([*names, *(one for one in folders if os.path.islink(os.path.join(above, one)))]):
            path = Path(above) / name
            if path.is_symlink() or not path.is_file():
                raise CodeInvalid(f"{path} is neither a file nor a folder.")
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
                executable = bool(os.fstat(file.fileno()).st_mode & 0o100)
            _add_file(whole, path.relative_to(folder).as_posix(), executable, content)
    return whole.hexdigest()


def remove_bytecode(folder: Path) -> None:
    """Remove all folders `__pycache__` below a folder. In them Python keeps the bytecode of imported modules."""
    for above, folders, _ in os.walk(folder):
        if _BYTECODE in folders:
            folders.remove(_BYTECODE)
            remove(Path(above) / _BYTECODE)


def _raised(error: OSError) -> None:
    raise error


def copy_folder(folder: Path, into: Path, leave_out: Collection[Path] = ()) -> Code:
    """Copy the files of `folder` into the folder `into`. Files and folders in `leave_out` are not copied. Returns the id, hash and size of
    the copy. Raises CodeInvalid if a file cannot be copied or the folder exceeds a limit, and OSError if the disk has a problem."""
    whole, left = hashlib.sha256(), MAX_BYTES
    for name, path in files_of(folder, leave_out):
        target = into / name
        try:
            private.given_folder(target.parent)
            with path.open("rb") as source:
                executable = bool(os.fstat(source.fileno()).st_mode & 0o100)
                with os.fdopen(private.new_file(target, executable=executable), "wb") as file:
                    content = hashlib.sha256()
                    left -= _copy(source, file, left, f"The code in {folder}", content)
                    _add_file(whole, name, executable, content.digest())
        except OSError as error:
            if error.errno in _TROUBLE:
                raise
            raise CodeInvalid(f"{path} cannot be copied: {error.strerror}.") from None
    return _code(whole, MAX_BYTES - left)


def _add_file(whole: hashlib._Hash, name: str, executable: bool, content: bytes) -> None:
    whole.update(f"{len(name)}:{name}:{executable}:".encode("utf-8", "surrogateescape") + content)


def _code(whole: hashlib._Hash, size: int) -> Code:
    digest = whole.digest()
    return Code(digest.hex(), base64.b64encode(digest).decode(), size)


def files_of(folder: Path, leave_out: Collection[Path] = ()) -> Iterator[tuple[str, Path]]:
    """The files below a folder, sorted by name within each folder. For each: its path relative to the folder, and its whole path. Files and
    folders in `leave_out`, those with a name in LEFT_OUT, links that lead to nothing, and devices, pipes and sockets are left out. Raises
    CodeInvalid if the folder does not exist, cannot be read, or exceeds a limit."""
    if not folder.is_dir():
        raise CodeInvalid(f"There is no folder {folder}.")
    count, size = 0, 0
    for name, path, told in _walk(folder, "", frozenset(leave_out), 0):
        count, size = count + 1, size + told.st_size
        if count > MAX_FILES:
            raise CodeInvalid(f"{folder} has more than {MAX_FILES} files. Name a folder that has only the function's code.")
        if size > MAX_BYTES:
            raise CodeInvalid(f"{folder} has more than {MAX_BYTES} bytes. Name a folder that has only the function's code.")
        yield name, path


def _walk(folder: Path, prefix: str, leave_out: frozenset[Path], depth: int) -> Iterator[tuple[str, Path, os.stat_result]]:
    if depth > MAX_DEPTH:
        raise CodeInvalid(f"{folder} is more than {MAX_DEPTH} folders deep; perhaps a link in it leads to a folder above it.")
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CodeInvalid(f"{folder} cannot be read: {error.strerror}.") from None
    for name in names:
        path = folder / name
        if name in LEFT_OUT or path in leave_out:
            continue
        try:
            told = path.stat()
        except OSError:  # a link to nothing, or a file that was removed meanwhile
            continue
        if stat.S_ISDIR(told.st_mode):
            yield from _walk(path, f"{prefix}{name}/", leave_out, depth + 1)
        elif stat.S_ISREG(told.st_mode):
            yield f"{prefix}{name}", path, told
