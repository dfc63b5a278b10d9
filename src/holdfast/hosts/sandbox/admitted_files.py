"""Which files of a worker's folder may be copied for its body. A file that may hold secrets is refused.

The author names files with `include`, and the operator's secrets may be beside the author's code. So each file is checked by its name and
by its mode before it is read. The error names the refused file and the reason.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast.model.errors import Rejected

_OPERATORS: Final = "holdfast.toml"
_DATABASE: Final = re.compile(r".*\.(db|sqlite[^.]*|db3|mdb)([-.].*)?|.*-(wal|shm|journal)", re.I)
_KEY: Final = re.compile(
    r".*\.(pem|key|p12|pfx|p8|pk8|jks|keystore|kdbx|ppk|asc|gpg|age|ovpn|keytab)|id_.*|authorized_keys|known_hosts|htpasswd|shadow", re.I
)
_SECRET: Final = re.compile(r"credentials.*|(.*[-_.])?(credential|secret|password)s?(\.[^.]*)?|(secrets|passwords)[-_.].*", re.I)
_SECRET_MODULE: Final = re.compile(r"(.*_)?(credential|secret|password)s?\.py|(credentials|secrets|passwords)_.*\.py", re.I)


class IncludeRefused(Rejected):
    """A worker's package would carry a file that its body must not see."""

    code = "include_refused"


def refusal_reason(name: str) -> str | None:
    """Why a file of this name (relative to the worker's folder) must not be copied; None if its name is allowed."""
    parts = PurePosixPath(name).parts
    for part in parts:
        if part.startswith("."):
            return f"{part} is hidden"
        if _DATABASE.fullmatch(part):
            return f"{part} is a database by its name"
        if _KEY.fullmatch(part):
            return f"{part} is a key by its name"
    return "it is the operator's file" if parts[-1].lower() == _OPERATORS else None


def check_included(top: Path, path: Path) -> None:
    """Raises IncludeRefused for a file of `include` that the body must not see: it is a link to a file outside `top`, `refusal_reason`
    refuses its name, a part of its path is named like secrets (such as `credentials.json`), other users may not read it, or other users may
    not enter a folder between `top` and the file."""
    name = path.relative_to(top).as_posix()
    if not path.resolve().is_relative_to(top):
        raise IncludeRefused(f"include: {name} is a link that leaves the worker's folder.")
    real = path.resolve().relative_to(top).as_posix()
    secret = next((part for each in (name, real) for part in PurePosixPath(each).parts if _SECRET.fullmatch(part)), None)
    named = None if secret is None else f"{secret} is a place of secrets by its name"
    why = refusal_reason(name) or refusal_reason(real) or named or _private(top, path)
    if why is not None:
        raise IncludeRefused(f"include: {name} is refused, because {why}. The worker's body would see it; name only files that it may see.")


def check_page(module: Path, page: str) -> Path:
    """The path of a worker's page; the file may be missing. `page` is the path relative to the worker's folder, `module` the worker's own
    file. Raises IncludeRefused for a page outside the worker's folder, for a name that `refusal_reason` refuses, and for a page that is
    more private than the worker's own file."""
    folder = module.resolve().parent  # the folder of the real file: a link to a trusted file must not bring another page
    path = folder / page
    if PurePosixPath(page).is_absolute() or ".." in PurePosixPath(page).parts:
        raise IncludeRefused(f"The page {page!r:.200} leaves the worker's folder.")
    if path.exists() and not path.resolve().is_relative_to(folder.resolve()):
        raise IncludeRefused(f"The page {page!r:.200} is a link that leaves the worker's folder.")
    why = refusal_reason(page) or (_more_private(module, path) if path.is_file() else None)
    if why is not None:
        raise IncludeRefused(f"The page {page!r:.200} is refused, because {why}.")
    return path


def reason_not_copied(module: Path, neighbour: Path, name: str) -> str | None:
    """`neighbour` is a module that belongs to the worker's code. Returns why it is not copied for the body; None if it is copied. `module`
    is the worker's own module. `name` is the path of `neighbour` below the worker's folder."""
    if neighbour == module:
        return None
    hidden = next((part for part in PurePosixPath(name).parts if part.startswith(".")), None)
    if hidden is not None:
        return f"{hidden} is hidden"
    if not neighbour.exists():
        return "it is a link to nothing"
    if _SECRET_MODULE.fullmatch(neighbour.name):
        return "it is a place of secrets by its name"
    return _more_private(module, neighbour)


def _more_private(module: Path, path: Path) -> str | None:
    """Why a file is more private than the worker's own file (`module`): other users may read that one, and not this file. Else None. If
    other users may read neither, the file is not more private: the user's umask probably made both private."""
    if module.stat().st_mode & stat.S_IROTH and not path.stat().st_mode & stat.S_IROTH:
        return f"others may read {module.name}, and may not read this file"
    return None


def _private(top: Path, path: Path) -> str | None:
    if not path.stat().st_mode & stat.S_IROTH:
        return f"others may not read it (its mode lacks o+r; `chmod o+r {path.name}` if it is no secret)"
    for folder in path.parents:
        if folder == top:
            break
        if not folder.stat().st_mode & stat.S_IXOTH:
            return f"others may not enter its folder {folder.name} (its mode lacks o+x)"
    return None
