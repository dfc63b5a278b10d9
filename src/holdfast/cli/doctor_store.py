"""The doctor's checks of a store: whether it can be opened, its schema, its size, the free disk space, its permissions, its clock."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from holdfast.cli.diagnoses import Diagnosis, Question, ok, problem, sentence, warning
from holdfast.files import private
from holdfast.model.clock import SystemClock
from holdfast.model.errors import ExtraMissing, HoldfastError, NotPrivate, StoreNotFound, StoreUnsuitable
from holdfast.model.ids import id_at
from holdfast.operator.trust import configuration_folder
from holdfast.store.backends import open_maintenance
from holdfast.store.maintenance import StoreReport
from holdfast.store.shown_address import shown

_FILES: Final = ("", "-wal", "-shm", "-journal", "-holdfast")
_FOLDERS: Final = (".functions", ".logs", ".workers", ".sample")
_LITTLE_BYTES: Final = 1 << 30
_TOO_LITTLE_BYTES: Final = 100 << 20
_SKEW_MS: Final = 1_000
_LARGE_SKEW_MS: Final = 60_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_COMMAND: Final = re.compile(r"`([^`]+)`")


def store(question: Question) -> Iterator[Diagnosis]:
    """Report whether the store can be opened, its schema, its size and, for a database, its clock. Nothing is changed or migrated. The
    store is not opened if one of its files has wrong permissions or another owner."""
    where = shown(question.where)
    if exposed := _exposed(_store_paths(question)):
        names = ", ".join(path.name for path, _, _ in exposed)
        yield warning("store", f"{where} was not opened, because opening it would change the permissions of {names}.", exposed[0][2])
        return
    try:
        look = open_maintenance(question.where, id_at(SystemClock().now())).look(SystemClock())
    except StoreNotFound:
        yield from _missing(question)
    except ExtraMissing as error:
        yield problem("store", sentence(str(error)), "pip install 'holdfast[postgres]'")
    except StoreUnsuitable as error:
        mend = "pip install --upgrade holdfast" if "schema version" in str(error) else "holdfast doctor --store ANOTHER_PATH"
        yield problem("store", sentence(str(error).replace(question.where, where)), mend)
    except NotPrivate as error:
        yield problem("store", sentence(str(error)), _named_command(error, question))
    except HoldfastError as error:
        check = question.command("db", "check") if question.is_file else "holdfast db check --store ADDRESS"
        yield problem("store", f"{where} cannot be opened: {sentence(str(error).replace(question.where, where))}", check)
    else:
        yield from _looked(question, look)


def _missing(question: Question) -> Iterator[Diagnosis]:
    """The diagnoses for a store that does not exist yet: whether it can be made at this place."""
    where = shown(question.where)
    if not question.is_file:
        yield ok("store", f"There is no store at {where} yet; the first process that opens the address makes it.")
        return
    folder = Path(question.where).absolute().parent
    if not folder.is_dir():
        yield problem("store", f"There is no folder {folder} for the store.", shlex.join(["mkdir", "-p", str(folder)]))
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield problem("store", f"This user may not write into {folder}, so no store can be made there.", _chmod("u+wx", folder))
    else:
        yield ok("store", f"There is no store at {where} yet; the first execution makes it.")


def _looked(question: Question, look: StoreReport) -> Iterator[Diagnosis]:
    where = shown(question.where)
    yield ok("store", f"{where} can be opened and has {look.bytes:,} bytes.")
    told = f"{where} has schema version {look.numbers.version}"
    if not look.behind:
        yield ok("schema", f"{told}, and this Holdfast has version {look.newest}.")
    elif question.is_file:
        yield warning(
            "schema", f"{told}, of an older release; the next program that opens it migrates it.", question.command("db", "migrate")
        )
    else:
        yield problem(
            "schema", f"{told}, of an older release, and no program migrates it by itself.", "holdfast db migrate --store ADDRESS"
        )
    if look.ahead_ms is not None:
        yield _skew(where, look.ahead_ms)


def _skew(where: str, ahead_ms: int) -> Diagnosis:
    """The diagnosis of the database's clock, which is `ahead_ms` milliseconds ahead of this machine's clock (behind, if negative). The
    engine uses the database's clock, so a difference does not harm the store; but logs and certificates use this machine's clock."""
    side = "ahead of" if ahead_ms > 0 else "behind"
    told = f"The clock of {where} is {abs(ahead_ms) / 1000:.1f} s {side} the clock of this machine"
    if abs(ahead_ms) >= _LARGE_SKEW_MS:
        return problem("store clock", f"{told}.", "sudo timedatectl set-ntp true")
    if abs(ahead_ms) >= _SKEW_MS:
        return warning("store clock", f"{told}.", "sudo timedatectl set-ntp true")
    return ok("store clock", f"The clocks of {where} and of this machine differ by less than a second.")


def disk(question: Question) -> Iterator[Diagnosis]:
    """Report whether the disk has room for the store to grow, and for a copy of it. No diagnosis for a database."""
    if not question.is_file:
        return
    folder = Path(question.where).absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    size = sum(path.stat().st_size for end in _FILES if (path := Path(question.where + end)).is_file())
    told = f"{free / (1 << 20):,.0f} MB are free on the disk of {folder}"
    if free < _TOO_LITTLE_BYTES:
        yield problem("disk", f"Only {told}.", shlex.join(["df", "-h", str(folder)]))
    elif free < max(_LITTLE_BYTES, size):
        yield warning("disk", f"Only {told}; a backup or a migration needs room for a copy.", shlex.join(["df", "-h", str(folder)]))
    else:
        yield ok("disk", f"{told}.")


def permissions(question: Question) -> Iterator[Diagnosis]:
    """Report which files and folders of the store belong to another user, or can be used or replaced by other users. The same for the
    record of trusted folders."""
    exposed = _exposed([configuration_folder(question.environment) / "trusted.json", *_store_paths(question)])
    for path, said, mend in exposed:
        yield problem("permissions", f"{path} {said}.", mend)
    try:
        if question.is_file and (folder := Path(question.where).absolute().parent).is_dir():
            private.refuse_shared(folder)
    except NotPrivate as error:
        yield problem("permissions", sentence(str(error)), _named_command(error, question))
        return
    if not exposed:
        yield ok("permissions", "Only this user can read the files of the store and of the configuration that are there.")


def _store_paths(question: Question) -> list[Path]:
    """The files and folders that a store in a file may have; empty for a database."""
    return [Path(question.where + end) for end in (*_FILES, *_FOLDERS)] if question.is_file else []


def _exposed(paths: Iterable[Path]) -> list[tuple[Path, str, str]]:
    """Those of these files and folders that belong to another user or that other users can use: each as its path, what is wrong, and the
    command that mends it."""
    found = []
    for path in paths:
        try:
            told = os.lstat(path)
        except OSError:
            continue
        mode = stat.S_IMODE(told.st_mode)
        right = private.FOLDER if stat.S_ISDIR(told.st_mode) else private.FILE
        if told.st_uid != os.geteuid():
            found.append((path, f"belongs to another user (number {told.st_uid})", f'sudo chown "$(id -un)" {shlex.quote(str(path))}'))
        elif mode & _OTHERS:
            found.append((path, f"has mode {mode:04o}, so other users can use it; it must have {right:04o}", _chmod(f"{right:o}", path)))
    return found


def _chmod(mode: str, path: Path) -> str:
    return shlex.join(["chmod", mode, str(path)])


def _named_command(error: NotPrivate, question: Question) -> str:
    """The command to show to the user: the first command in the text of the error. If the text has none, a command that lists the folder of
    the store."""
    named = _COMMAND.findall(str(error))
    return named[0] if named else shlex.join(["ls", "-la", str(Path(question.where).absolute().parent)])
