"""`holdfast check` of a worker's file: its pages, the files of its package, and the trust that its tools need. The file is read, never
run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from holdfast.author_files.author_code import author_code
from holdfast.cli.check_pages import read_page, unreadable
from holdfast.cli.consent import Consent
from holdfast.contract.terms import PageReading, Problem, ProblemLevel
from holdfast.hosts.sandbox.admitted_files import IncludeRefused, check_page
from holdfast.hosts.sandbox.snapshot import gather, stays_behind
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.operator.folder_ownership import faults_of
from holdfast.workers.tools.declarations import DeclaredWorker, declarations_of


def worker_file(file: Path, tools: list[str]) -> list[tuple[Path, PageReading]]:
    """Each page of a worker's file, and what was found in it. The page may name the tools of the file and those in `tools`. If the file
    itself, or the package of a worker, has problems, the first element is the file with all these problems. The page of a worker whose
    package has problems is left out."""
    try:
        declared = declarations_of(file.read_bytes())
    except (OSError, ValueError) as error:
        return [(file, unreadable(error))]
    wrong = [Problem(ProblemLevel.ERROR, "worker_file", "", problem.line, problem.message) for problem in declared.problems]
    if not declared.workers and not wrong:
        wrong = [
            Problem(ProblemLevel.ERROR, "worker_file", "", 1, 'The file declares no worker: mark its function with @worker("page.md").')
        ]
    unfit = [(body, _unfit(file, body)) for body in declared.workers]
    wrong += [problem for _, problems in unfit for problem in problems]
    own = [*tools, *(each.name for each in declared.tools)]
    pages = [(file.parent / body.page, read_page(file.parent / body.page, own)) for body, problems in unfit if not problems]
    left = tuple(Problem(ProblemLevel.WARNING, "left_behind", "", 0, line) for line in stays_behind(file))
    pages = [(page, msgspec.structs.replace(reading, problems=(*reading.problems, *left))) for page, reading in pages]
    return [(file, PageReading(None, tuple(wrong))), *pages] if wrong else pages


def has_workers(file: Path) -> bool:
    """Whether a Python file declares a worker. Also True if that cannot be known, because the file cannot be read or has problems."""
    if file.suffix != ".py":
        return False
    try:
        declared = declarations_of(file.read_bytes())
    except (OSError, ValueError):
        return True
    return bool(declared.workers or declared.problems)


def _unfit(file: Path, body: DeclaredWorker) -> list[Problem]:
    """The problems of the package of one declared worker: files that it must not contain, or that cannot be read; empty if it is fine."""
    try:
        page = check_page(file, body.page)
        gather(file, page if page.is_file() else None, body.include)
    except IncludeRefused as refused:
        return [Problem(ProblemLevel.ERROR, "include_refused", "", body.line, str(refused))]
    except InvalidParameter as wrong:
        return [Problem(ProblemLevel.ERROR, "worker_file", "", body.line, str(wrong))]
    except OSError as error:
        return [Problem(ProblemLevel.ERROR, "file_not_readable", "", body.line, f"{error.filename} could not be read: {error.strerror}.")]
    return []


def trust_of(file: Path) -> list[dict[str, Any]]:
    """The folder that must be trusted before the tools of a worker's file run, and whether it is trusted. Empty if the file has no tools,
    is a ready worker, or cannot be read."""
    try:
        code = author_code(file)
    except (Rejected, OSError):
        return []  # `worker_file` reports this as a problem of the file
    if code is None or code.ready:
        return []
    faults = faults_of(code.folder, code.files)
    trusted = not faults and Consent(trust=False).has(code.folder)
    names = [tool.name for tool in code.tools]
    if faults:
        stands = f"cannot be trusted: {'; '.join(faults)}"
    else:
        stands = "is trusted" if trusted else f"is not trusted: {shlex.join(['holdfast', 'trust', str(code.folder)])}"
    told = f"{file}: its tools ({', '.join(names)}) run outside the sandbox; {code.folder} {stands}"
    return [{"file": str(file), "folder": str(code.folder), "tools": names, "trusted": trusted, "faults": faults, "told": told}]
