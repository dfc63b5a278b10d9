"""The doctor's checks of the operator's files: whether they can be read, whether they apply, and whether another user could change them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.cli.diagnoses import Diagnosis, Question, ok, problem, sentence, warning
from holdfast.cli.terminal import shortened
from holdfast.model.errors import HoldfastError
from holdfast.operator.files import OperatorFiles, operator_files
from holdfast.operator.folder_ownership import faults_of
from holdfast.operator.holdfast_toml import FILE
from holdfast.operator.trust import TrustBook, configuration_folder

_REMEDY: Final = re.compile(r"\((chmod [^)]*)\)")


def configuration(question: Question) -> Iterator[Diagnosis]:
    """Report which holdfast.toml applies, and which of its settings are ignored because its folder is not trusted."""
    try:
        files = operator_files(question.config, question.environment)
    except HoldfastError as error:
        yield problem("configuration", sentence(str(error)), f'"${{EDITOR:-vi}}" {shlex.quote(str(_read(question)))}')
        return
    if files.local is not None:
        yield _local(question, files)
    elif files.file.is_file():
        yield ok("configuration", f"{files.file} applies.")
    else:
        yield ok("configuration", "There is no holdfast.toml; the defaults apply.")


def _read(question: Question) -> Path:
    """The path of the holdfast.toml that the user is advised to edit: the one that --config or HOLDFAST_CONFIG names, else the one of the
    current folder, else the one of the user's configuration folder."""
    named = question.config or question.environment.get("HOLDFAST_CONFIG")
    here = Path(FILE)
    return Path(named) if named else here if here.is_file() else configuration_folder(question.environment) / FILE


def _local(question: Question, files: OperatorFiles) -> Diagnosis:
    """The diagnosis of the file of the current folder. Settings that need trust apply only if the folder is trusted and no other user could
    change it."""
    assert files.local is not None
    folder = Path.cwd().resolve()
    faults = faults_of(folder, [files.local])
    if faults:
        mend = _REMEDY.search(faults[0])
        told = f"{files.local} cannot be trusted, because another user could change it: {sentence('; '.join(faults))}"
        return problem("configuration", told, mend[1] if mend else shlex.join(["ls", "-ld", str(folder)]))
    if not files.ignored:
        return ok("configuration", f"{files.local} of this folder applies.")
    if TrustBook(configuration_folder(question.environment)).trusts(folder):
        return ok("configuration", f"{files.local} of this folder applies in full, because the folder is trusted.")
    ignored = shortened(", ".join(files.ignored), 200)
    told = f"{files.local} of this folder is not trusted, so these settings of it do not apply: {ignored}."
    return warning("configuration", told, shlex.join(["holdfast", "trust", str(folder)]))


def trust(question: Question) -> Iterator[Diagnosis]:
    """Report whether the record of trusted folders can be read, and which folders in it are gone or could be changed by another user."""
    book = TrustBook(configuration_folder(question.environment))
    try:
        folders = book.folders()
    except HoldfastError as error:
        mend = _REMEDY.search(str(error))
        yield problem("trust", sentence(str(error)), mend[1] if mend else shlex.join(["rm", str(book.file)]))
        return
    sound = 0
    for folder in folders:
        faults = faults_of(folder) if folder.is_dir() else [f"there is no folder {folder} any more"]
        if not faults:
            sound += 1
            continue
        mend = _REMEDY.search(faults[0])
        undo = shlex.join(["holdfast", "trust", "--remove", str(folder)])
        yield warning("trust", f"{folder} counts as not trusted: {sentence('; '.join(faults))}", mend[1] if mend else undo)
    if sound == len(folders):
        yield ok("trust", f"{sound} folders are trusted." if sound != 1 else "1 folder is trusted.")
