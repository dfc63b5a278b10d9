"""read_repo: reads lines of a file in a folder that the operator opened to workers (`[repos.NAME]` in holdfast.toml). It never writes.

A path is opened folder by folder, beginning at the descriptor of the operator's folder. No link below that folder is followed, not even a
link that is created while the path is opened. Files and folders whose name begins with a dot, or is a name that files with secrets usually
have, are refused, and so are files that contain a private key. An error names the path in the repository, never a path of the machine.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct

from holdfast.files.private import FOLDER_FLAGS
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, ToolFailed

ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["repo", "path"],
    "properties": {
        "repo": {"type": "string", "minLength": 1, "maxLength": 100},
        "path": {"type": "string", "minLength": 1, "maxLength": 1_000},
        "first": {"type": "integer", "minimum": 1, "description": "the first line, from 1"},
        "last": {"type": "integer", "minimum": 1, "description": "the last line"},
    },
}
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LINKED: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})
_MOST_FOLDERS: Final = 64
_SECRET_NAME: Final = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519).*|holdfast\.toml"
    r"|(?:.*[-_.])?(?:secrets?|credentials?|passwords?|passwd|shadow|htpasswd|netrc)(?:\.(?:toml|ya?ml|json|ini|txt|xml|properties|conf|cfg|csv|db|enc|bak))*"
    r"|.*\.(?:env|pem|key|p8|p12|pfx|ppk|jks|keystore|kdbx|gpg|tfstate|tfvars)(?:\.(?:backup|bak))?",
    re.IGNORECASE,
)
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY")


class RepoSettings(Struct, frozen=True, kw_only=True):
    """A folder that workers may read."""

    folder: str
    tenants: tuple[str, ...] = ()
    """The tenants whose runs may read the folder; empty: all tenants."""
    max_file_bytes: int = 1024 * 1024
    """The most bytes of a file that can be read. A call for a larger file fails."""
    max_bytes: int = 256 * 1024
    """One call returns at most this many bytes of lines."""
    max_lines: int = 2_000
    """One call returns at most this many lines."""


class ReadRepo:
    """The tool `read_repo`."""

    name = "read_repo"
    effect = Effect.READ
    arguments_schema = ARGUMENTS

    def __init__(self, repos: Mapping[str, RepoSettings]) -> None:
        self._repos = repos

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """An empty reservation: reading a file costs no tokens and no money."""
        return Reservation()

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """The lines of one file that the call asks for, how many lines the file has, and the hash of the whole file. Raises ToolFailed if
        the file may not or cannot be read."""
        name, path = str(arguments["repo"]), str(arguments["path"])
        repo = self._repos.get(name)
        if repo is None or (repo.tenants and call.tenant not in repo.tenants):
            told = f"There is no repository {name!r} that this run may read. The operator lists repositories in [repos] of holdfast.toml."
            raise ToolFailed("access_denied", told, details={"reason": "repo_unknown"})
        first, last = int(arguments.get("first", 1)), arguments.get("last")
        data = await in_thread(Purpose.FILES, _content, repo, _parts(path), path)
        return CallResult({"repo": name, "path": path, **_lines(data, first, last, repo)})


def _parts(path: str) -> list[str]:
    """Split a path at each `/`. Raises ToolFailed if the path has too many parts, or if a part is empty (also in an absolute path), begins
    with a dot (also `.` and `..`), contains a backslash or NUL, or is a name that files with secrets usually have."""
    parts = path.split("/")
    if len(parts) > _MOST_FOLDERS or any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise _denied(
            f"{path!r:.200} is not a path that this tool reads. Write the path from the folder on, such as src/a.py: "
            f"at most {_MOST_FOLDERS} names with one / between them, without `.`, `..` and backslashes."
        )
    if any(part.startswith(".") for part in parts):
        raise _denied(f"{path!r:.200} has a part that begins with a dot: this tool does not read such files and folders.")
    if any(_SECRET_NAME.fullmatch(part) for part in parts):
        raise _denied(f"{path!r:.200} has a part with a name that files with secrets have: this tool does not read such files.")
    return parts


def _content(repo: RepoSettings, parts: list[str], path: str) -> bytes:
    """The whole file. Blocks. Raises ToolFailed if it is not a regular text file, has a second name (a hard link), contains a private key,
    is too large, or cannot be read."""
    try:
        with _opened(repo.folder, parts) as fd:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise _denied(f"{path!r:.200} is not a regular file.")
            if found.st_nlink > 1:
                raise _denied(f"{path!r:.200} has a second name (a hard link), so it may be a file from elsewhere.")
            data = _read(fd, repo.max_file_bytes + 1)
    except OSError as error:
        raise _unreadable(error, path) from None
    if len(data) > repo.max_file_bytes:
        raise _failed(f"{path!r:.200} is larger than {repo.max_file_bytes:,} bytes.", "too_large")
    if b"\0" in data:
        raise _failed(f"{path!r:.200} is not a text file: it contains a NUL byte.", "binary")
    if _PRIVATE_KEY.search(data):
        raise _denied(f"{path!r:.200} has a private key in it.")
    return data


@contextmanager
def _opened(folder: str, parts: list[str]) -> Iterator[int]:
    """A block that yields the descriptor of the file and closes it at its end. The file is opened folder by folder, without following
    links; only the operator's folder itself may be a link."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, FOLDER_FLAGS, dir_fd=at)
            os.close(at)
            at = below
        fd = os.open(parts[-1], _FILE_FLAGS, dir_fd=at)
    finally:
        os.close(at)
    try:
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, most: int) -> bytes:
    pieces, size = [], 0
    while size < most and (piece := os.read(fd, min(1 << 16, most - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _lines(data: bytes, first: int, last: int | None, repo: RepoSettings) -> dict[str, Any]:
    """The lines from number `first` to number `last` (None: to the end), but not more than one call may return. In the result, `truncated`
    says whether some of these lines were left out for that reason."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = lines[first - 1 : last]
    shown: list[str] = []
    size = 0
    for line in wanted[: repo.max_lines]:
        size += len(line.encode()) + 1
        if size > repo.max_bytes:
            break
        shown.append(line)
    return {
        "first": first,
        "lines": shown,
        "total_lines": len(lines),
        "truncated": len(shown) < len(wanted),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _unreadable(error: OSError, path: str) -> ToolFailed:
    if error.errno == errno.ENOENT:
        return _failed(f"There is no file {path!r:.200}.", "not_found")
    if error.errno in _LINKED:
        return _denied(f"{path!r:.200} contains a link, or a file in the place of a folder: this tool follows no links.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return _denied(f"The runner may not read {path!r:.200}.")
    return ToolFailed("tool_unavailable", f"{path!r:.200} could not be read: {os.strerror(error.errno or 0)}.")


def _denied(message: str) -> ToolFailed:
    return ToolFailed("access_denied", message)


def _failed(message: str, reason: str) -> ToolFailed:
    return ToolFailed("tool_failed", message, details={"reason": reason})
