"""A worker's code as it was when it was looked at: a read-only copy, named by the hash of what is in it.

The body sees this copy and never the folder it came from, where secrets and the store may lie. The name also pins the version: a run that
goes on after a deploy goes on with the code it began with.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast.model.errors import InvalidParameter

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_FILES: Final = 5000
_TESTS: Final = re.compile(r"test_.*\.py|.*_test\.py|conftest\.py")
_HOLDFAST: Final = Path(__file__).resolve().parents[2]


def gather(module: Path, page: Path | None = None, include: Sequence[str] = ()) -> dict[str, Path]:
    """The files of the package that a module belongs to, by the names they get: its `.py` files, the page, and what `include` names.

    A module in a package brings the whole package; another one brings the modules and packages beside it, and so does one of Holdfast's
    own library: Holdfast itself is installed where the copy runs. Tests stay behind: a body needs none, another test is no other worker,
    and whoever runs pytest in his folder must not meet them twice.
    """
    module = module.resolve()
    top = module.parent
    while (top / "__init__.py").exists() and _HOLDFAST not in top.parents:
        top = top.parent
    inside = module.relative_to(top)
    roots = [top / inside.parts[0]] if len(inside.parts) > 1 else _beside(top)
    modules = (path for root in roots for path in _modules(root))
    found = {path.relative_to(top).as_posix(): path for path in modules if path == module or not _TESTS.fullmatch(path.name)}
    if page is not None:
        found[page.name] = page.resolve()
    for pattern in include:
        if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
            raise InvalidParameter(f"include {pattern!r} leaves the worker's folder")
        matches = [path for path in sorted(module.parent.glob(pattern)) if path.is_file()]
        if not matches:
            raise InvalidParameter(f"include {pattern!r} matches no file beside {module.name}")
        found.update({path.relative_to(top).as_posix(): path for path in matches})
    for name, path in found.items():
        if name != (page.name if page else None) and not path.resolve().is_relative_to(top):
            raise InvalidParameter(f"{name} is a link that leaves the worker's folder")
    return found


def snapshot(files: Mapping[str, Path], into: Path) -> Path:
    """Copy these files to a folder of their own below `into`, and return it. The same content is copied once."""
    if len(files) > _MOST_FILES:
        raise InvalidParameter(f"a worker of {len(files)} files; at most {_MOST_FILES} are copied")
    contents = {name: path.read_bytes() for name, path in sorted(files.items())}
    size = sum(map(len, contents.values()))
    if size > _MOST_BYTES:
        raise InvalidParameter(f"a worker of {size} bytes; at most {_MOST_BYTES} are copied")
    final = into / _hash(contents)
    if final.is_dir() and _hash(dict(_read(final))) == final.name:
        return final
    into.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=into))
    try:
        _write(draft, contents)
        if final.exists():  # somebody changed it
            os.rename(final, draft / ".changed")
        os.rename(draft, final)
    except OSError:
        if not final.is_dir():
            raise
    finally:
        _remove(draft)
        _remove(final / ".changed")
    os.chmod(final, 0o555)
    return final


def _hash(contents: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, data in sorted(contents.items()):
        total.update(f"{len(name.encode())}:{name}:{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if not path.is_dir():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o444)
    for below in folder.rglob("*"):
        if below.is_dir():
            below.chmod(0o555)
    folder.chmod(0o755)


def _remove(folder: Path) -> None:
    if folder.exists():
        for below in [folder, *folder.rglob("*")]:
            if below.is_dir() and not below.is_symlink():
                below.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)


def _beside(folder: Path) -> list[Path]:
    packages = [path for path in folder.iterdir() if (path / "__init__.py").exists() and not path.is_symlink()]
    return [*folder.glob("*.py"), *packages]


def _modules(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    yield from (path for path in root.rglob("*.py") if not any(part.startswith(".") for part in path.relative_to(root).parts))
