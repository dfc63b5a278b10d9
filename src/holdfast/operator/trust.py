"""Trusted folders: their code may run outside the sandbox, and their holdfast.toml is used as the operator's file.

The record is the file `trusted.json` in the user's own configuration folder (`configuration_folder`), which no other user can change.
Trust is for one folder, by its real path. If the folder is a Python package, trust is also for the packages inside it. Trust is for no
other folder in it: a user who trusts the home folder does not trust a download in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.model.errors import Rejected
from holdfast.operator.folder_ownership import faults_of

_FORMAT: Final = "holdfast-trust/1"
_FILE: Final = "trusted.json"
_LONGEST: Final = 16 * 1024 * 1024


class TrustNeeded(Rejected):
    """A command needs a folder that the user has not trusted. The folder has tools that would run outside the sandbox, or it has the
    command's store."""

    code = "trust_needed"


class TrustRefused(Rejected):
    """A folder cannot be trusted, or the record of trusted folders cannot be used. The message says why.

    A folder cannot be trusted if it is not a folder, or if another user could change what runs from it. The record cannot be used if it is
    damaged, cannot be read or written, or could be changed by another user.
    """

    code = "trust_refused"


class ToolsNotAllowed(Rejected):
    """The operator's file does not allow the server to run these tools of a worker's author."""

    code = "tools_not_allowed"


def configuration_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's configuration folder for Holdfast: in `$XDG_CONFIG_HOME` if that is an absolute path, else in `~/.config`."""
    told = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = environment.get("HOME")
    return (told if told.is_absolute() else (Path(home) if home else Path.home()) / ".config") / "holdfast"


class TrustBook:
    """The record of trusted folders. Its methods raise TrustRefused if the record is damaged, cannot be read or written, or could be
    changed by another user."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or configuration_folder()
        self.file = self._folder / _FILE

    def folders(self) -> list[Path]:
        """The trusted folders, sorted by path."""
        return sorted(map(Path, self._read()))

    def trusts(self, folder: Path) -> bool:
        """Whether this folder is in the record. This does not check whether another user could change the folder: `check_fit` does."""
        return str(folder.resolve()) in self._read()

    def add(self, folder: Path) -> Path:
        """Add a folder to the record, and return its real path. Raises TrustRefused also if it is not a folder, or if another user could
        change it."""
        real = folder.resolve()
        if not real.is_dir():
            raise TrustRefused(f"{folder} is not a folder.")
        check_fit(real)
        with self._held():
            known = self._read()
            if str(real) not in known:
                self._write([*known, str(real)])
        return real

    def remove(self, folder: Path) -> bool:
        """Remove a folder from the record. Returns whether it was in the record. The folder itself need not exist."""
        with self._held():
            known = self._read()
            gone = {str(folder), str(folder.absolute()), str(folder.resolve())} & set(known)
            if gone:
                self._write([path for path in known if path not in gone])
            return bool(gone)

    # --- the file

    def _read(self) -> list[str]:
        if not self.file.exists():
            return []
        self._check_own()
        try:
            with self.file.open("rb") as opened:
                told: Any = json.loads(opened.read(_LONGEST))
            if told["format"] != _FORMAT or not all(isinstance(path, str) for path in told["folders"]):
                raise ValueError
            return list(told["folders"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TrustRefused(f"{self.file} is damaged, so no folder is trusted. Remove it, and trust your folders again.") from None
        except OSError as error:
            raise TrustRefused(f"{self.file} could not be read: {error.strerror}.") from None

    def _check_own(self) -> None:
        faults = faults_of(self._folder, [self.file] if self.file.exists() else [])
        if faults:
            raise TrustRefused(f"Another user could change the record of trusted folders: {'; '.join(faults)}.")

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Lock the record until the block is left, so that only one process writes it at a time. Makes the configuration folder if it does
        not exist. Raises TrustRefused if that fails, if another user could change the record, or if the block raises OSError."""
        try:
            for folder in reversed((self._folder, *self._folder.parents)):
                if not folder.exists():
                    folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise TrustRefused(f"The record of trusted folders, {self.file}, could not be written: {error.strerror}.") from None
        try:
            self._check_own()
            os.fchmod(descriptor, 0o700)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        except OSError as error:
            raise TrustRefused(f"The record of trusted folders, {self.file}, could not be written: {error.strerror}.") from None
        finally:
            os.close(descriptor)

    def _write(self, folders: list[str]) -> None:
        """Replace the record atomically: a crash leaves the old record or the new one."""
        descriptor, draft = tempfile.mkstemp(prefix=f".{_FILE}-", dir=self._folder)  # only its owner can read and write the new file
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump({"format": _FORMAT, "folders": folders}, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise


def check_fit(folder: Path, files: Iterable[Path] = ()) -> None:
    """Raise TrustRefused if another user could change a folder or these files. The error lists every reason, with a remedy if there is
    one."""
    faults = faults_of(folder, files)
    if faults:
        told = "\n".join(f"  {fault}" for fault in faults)
        raise TrustRefused(f"{folder.resolve()} cannot be trusted, because another user could change what runs from it:\n{told}")
