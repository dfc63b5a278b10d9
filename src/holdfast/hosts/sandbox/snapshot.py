"""Snapshots: read-only copies of a worker's code, each named by the hash of its content.

In its jail, the body sees the copy and not the original folder, where secrets and the store may be. The name also fixes the version: a run
that continues after a deployment continues with the code that it began with.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast.files import private
from holdfast.files.removal import remove
from holdfast.hosts.sandbox.admitted_files import check_included, reason_not_copied
from holdfast.model.errors import InvalidParameter

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_FILES: Final = 5000
_TESTS: Final = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
_HOLDFAST: Final = Path(__file__).resolve().parents[2]


def gather(module: Path, page: Path | None = None, include: Sequence[str] = ()) -> dict[str, Path]:
    """The files to copy for a module, by their names in the copy: `.py` files, the page, and the files of `include`.

    For a module in a package, these are all `.py` files of the outermost package. For another module, and for a worker of Holdfast's own
    library, they are the `.py` files beside it and those of the packages beside it; other files are copied only if `include` names them.
    Tests are not copied: a body does not need them, a changed test must not make a new worker version, and pytest in the author's folder
    must not find them twice. Modules that may hold secrets, are hidden or are dead links are not copied either (see `stays_behind`).

    Raises IncludeRefused for a file of `include` that the body must not see, and InvalidParameter for a pattern that matches no file or for
    a path that leaves the folder.
    """
    module = module.resolve()
    top = top_of(module)
    found = {name: path for name, path in _neighbours(module, top) if reason_not_copied(module, path, name) is None}
    if page is not None:
        found[page.name] = page.resolve()
    for pattern in include:
        if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
            raise InvalidParameter(f"include {pattern!r} leaves the worker's folder; name files in this folder or below it")
        met = islice(module.parent.glob(pattern), _MOST_FILES + 1)
        matches = [path for path in sorted(met) if path.is_file()]
        if not matches:
            raise InvalidParameter(f"include {pattern!r} matches no file beside {module.name}")
        for path in matches:
            check_included(top, path)
            found[path.relative_to(top).as_posix()] = path
    real = {name: path.resolve() for name, path in found.items()}
    for name, path in real.items():
        if name != (page.name if page else None) and not path.is_relative_to(top):
            raise InvalidParameter(f"{name} is a link that leaves the worker's folder")
    return real


def top_of(module: Path) -> Path:
    """The folder that contains a module's outermost package; for a module without a package, and for a worker of Holdfast's own library,
    the module's own folder."""
    top = module.resolve().parent
    while (top / "__init__.py").exists() and _HOLDFAST not in top.parents:
        top = top.parent
    return top


def code_folder(module: Path) -> Path:
    """The folder whose code runs with a module: the folder of its outermost package; for a module without a package, and for a worker of
    Holdfast's own library, the module's own folder. Trust is given to this folder. The folder around a package may be a home folder, which
    may contain packages of other authors."""
    module = module.resolve()
    top = top_of(module)
    inside = module.relative_to(top)
    return top / inside.parts[0] if len(inside.parts) > 1 else top


def stays_behind(module: Path) -> list[str]:
    """One sentence for each module that belongs to the worker's code and is not copied for the body, except tests and what is hidden inside
    a package. The sentence names the reason: the module may hold secrets, is hidden, or is a dead link."""
    module = module.resolve()
    told = ((name, reason_not_copied(module, path, name)) for name, path in _neighbours(module, top_of(module)))
    return [f"{name} is not copied for the body: {why}." for name, why in sorted(told) if why is not None]


def ours(module: Path) -> bool:
    """Whether a module is part of Holdfast itself, such as a ready worker of its library."""
    return _HOLDFAST in module.resolve().parents


def _neighbours(module: Path, top: Path) -> Iterator[tuple[str, Path]]:
    inside = module.relative_to(top)
    roots = [top / inside.parts[0]] if len(inside.parts) > 1 else _beside(top)
    for path in (path for root in roots for path in _modules(root)):
        if path == module or not _TESTS.fullmatch(path.name):
            yield path.relative_to(top).as_posix(), path


def snapshot(files: Mapping[str, Path], into: Path) -> Path:
    """Copy these files to a folder below `into` that is named by their content, and return that folder. If the folder is there already and
    unchanged, nothing is copied; a changed one is replaced. Raises InvalidParameter if the files are too many or too large, or if a file is
    replaced meanwhile."""
    if len(files) > _MOST_FILES:
        raise InvalidParameter(f"the worker has {len(files)} files to copy; at most {_MOST_FILES} are allowed")
    contents: dict[str, bytes] = {}
    most = _MOST_BYTES
    for name, path in sorted(files.items()):
        contents[name] = _content(path, most)
        most -= len(contents[name])
    final = into / _hash(contents)
    private.given_folder(into)
    private.own_folder(into)
    if final.is_symlink():  # the link may lead to a folder that we must not read or change
        final.unlink()
    if final.is_dir() and intact(final):
        return final
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=into))
    try:
        _write(draft, contents)
        if final.exists():  # the snapshot was changed after it was made
            os.chmod(final, private.FOLDER)  # without write permission the folder cannot be moved
            os.rename(final, draft / ".changed")
        os.rename(draft, final)
    except OSError:
        if not final.is_dir():
            raise
    finally:
        for rest in (draft, final / ".changed"):
            with contextlib.suppress(OSError):
                remove(rest)
    os.chmod(final, 0o555)
    return final


def _content(path: Path, most: int) -> bytes:
    """The content of a file, given by its real path. After the file was checked, another user who owns its folder could replace it, or a
    folder above it, by a link. So this function checks that the opened file is the checked one, and raises InvalidParameter if it is not,
    or if the file has more than `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        opened = Path(f"/proc/self/fd/{descriptor}")
        if opened.parent.is_dir() and os.readlink(opened) != str(path.absolute()):
            raise InvalidParameter(f"{path} was replaced or moved while it was copied; nothing was run")
        data = file.read(most + 1)
    if len(data) > most:
        raise InvalidParameter(f"the files of the worker have more than {_MOST_BYTES} bytes together, and are not copied")
    return data


def intact(folder: Path) -> bool:
    """Whether the content of a snapshot still matches its name. Bytecode in it is removed, because Python would run it instead of the code.

    A snapshot has only files and folders. A snapshot that contains a link, or was replaced by a link, is not intact.
    """
    if folder.is_symlink() or any(path.is_symlink() for path in folder.rglob("*")):
        return False
    for left in [path for path in folder.rglob("__pycache__") if path.is_dir()]:
        remove(left)
    try:
        return _hash(dict(_read(folder))) == folder.name
    except OSError:
        return False


def _hash(contents: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, data in sorted(contents.items()):
        total.update(f"{len(name.encode())}:{name}:{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if not path.is_dir():
            if not path.is_file():  # reading a pipe would never end
                raise OSError(errno.EINVAL, "neither a file nor a folder", str(path))
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files. All users may read them, because the body may run as another user. But only the runner's user may enter the folder
    above them, and the jail shows only the folder with these files."""
    for name, data in contents.items():
        path = folder / name
        private.given_folder(path.parent)
        with os.fdopen(private.new_file(path), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o444)
    for below in folder.rglob("*"):
        if below.is_dir():
            below.chmod(0o555)


def _beside(folder: Path) -> list[Path]:
    shown = (path for path in folder.iterdir() if not path.name.startswith("."))
    packages = [path for path in shown if (path / "__init__.py").exists() and not path.is_symlink()]
    return [*folder.glob("*.py"), *packages]


def _modules(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    met = (path for path in root.rglob("*.py") if path.is_file() or path.is_symlink())  # skips pipes, and folders named like modules
    yield from (path for path in met if not any(part.startswith(".") for part in path.relative_to(root).parts))
