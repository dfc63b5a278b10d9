"""Consent: whether the user trusts a folder. The user answers a question, gives --trust, or has trusted the folder before.

--trust                    trusted, and recorded
in the record              trusted, as long as no other user could change the folder
at a terminal              the command asks one question
otherwise                  tools of an author: exit code 2, and the command to trust the folder is printed;
                           holdfast.toml: only settings that tighten apply, and the ignored settings are printed
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.author_files.author_code import AuthorCode, author_code
from holdfast.cli.arguments import StorePlace
from holdfast.cli.terminal import printable, say, shortened
from holdfast.operator.files import OperatorFiles, operator_files
from holdfast.operator.folder_ownership import faults_of
from holdfast.operator.trust import TrustBook, TrustNeeded, TrustRefused, check_fit
from holdfast.service.runtimes.worker_runtime import WorkerSettings

if TYPE_CHECKING:
    from holdfast.workers.packages import Package


class TrustRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that a command needs trusted, and why."""

    folder: Path
    why: str
    """What trust in the folder allows, as the question and the errors show it."""
    files: tuple[Path, ...] = ()
    """The files of the folder that the command uses. Trust is refused if another user could change one of them."""
    needed: bool = True
    """True: the command does not run without trust. False: the command runs, and less of the folder's holdfast.toml applies."""


class Consent:
    """The user's trust in folders during one command. `trust` says whether the command was given --trust."""

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust
        self._book = TrustBook()
        self._given: set[Path] = set()

    def has(self, folder: Path) -> bool:
        """Whether the user trusted this folder during this command, or it is in the record and no other user could change it. If the record
        cannot be read, only the first counts."""
        if folder.resolve() in self._given:
            return True
        try:
            return self._book.trusts(folder) and not faults_of(folder)
        except TrustRefused:
            return False

    def settle(self, requests: Sequence[TrustRequest]) -> None:
        """Find out whether the user trusts the folders of all requests, with at most one question, and record new trust. Raises TrustNeeded
        if the user does not trust the folder of a request with `needed`: the command cannot run without it. Raises TrustRefused if another
        user could change such a folder, or if the record of trusted folders cannot be read."""
        for request in requests:
            if request.needed and (self._trust or self._book.trusts(request.folder)):
                check_fit(request.folder, request.files)
        open_ = [request for request in requests if not self._granted(request)]
        if not open_:
            return
        if self._trust or self._asked(open_):
            self._give(open_)
        elif any(request.needed for request in open_):
            raise TrustNeeded(_needed(open_))

    def _granted(self, request: TrustRequest) -> bool:
        if request.folder.resolve() in self._given:
            return True
        return self._book.trusts(request.folder) and not faults_of(request.folder, request.files)

    def _asked(self, requests: Sequence[TrustRequest]) -> bool:
        """Ask the user one question about the folders of all requests, and return whether the answer is yes. If there is no terminal, or if
        none of the folders could be trusted, no question is asked, and the result is False. Raises TrustRefused if another user could
        change the folder of a request with `needed`."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        fit = [request for request in requests if request.needed or not faults_of(request.folder, request.files)]
        if not fit:
            return False
        for request in fit:
            check_fit(request.folder, request.files)
            say(f"{printable(str(request.folder.resolve()))}: {printable(request.why)}")
        folders = " and ".join(dict.fromkeys(printable(str(request.folder.resolve())) for request in fit))
        print(f"Trust {folders}? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _give(self, requests: Sequence[TrustRequest]) -> None:
        for request in requests:
            if not request.needed and faults_of(request.folder, request.files):
                continue  # the message about ignored settings names this folder
            check_fit(request.folder, request.files)
            real = request.folder.resolve()
            if real in self._given:
                continue
            self._given.add(real)
            if self._book.trusts(real):
                continue
            try:
                self._book.add(real)
            except TrustRefused as refused:
                say(f"warning: trusted for this command only: {printable(str(refused))}")
            else:
                say(f"trusted from now on: {printable(str(real))} (`holdfast trust --remove` takes it back)")


def _needed(requests: Sequence[TrustRequest]) -> str:
    needed = [request for request in requests if request.needed]
    folders = dict.fromkeys(str(request.folder.resolve()) for request in needed)
    told = "; ".join(f"{folder} is not trusted: {_reasons(needed, folder)}" for folder in folders)
    more = [request for request in requests if not request.needed and str(request.folder.resolve()) in folders]
    also = f" Trust then also means: {'; '.join(request.why for request in more)}." if more else ""
    return f"{told}. Nothing was run. If you trust what is there: {shlex.join(['holdfast', 'trust', *folders])} (or add --trust).{also}"


def _reasons(requests: Sequence[TrustRequest], folder: str) -> str:
    return ", and ".join(request.why for request in requests if str(request.folder.resolve()) == folder)


# --- the requests of commands


def code_request(code: AuthorCode) -> list[TrustRequest]:
    """The request for the folder of tools that would run outside the sandbox; empty for Holdfast's own workers."""
    if code.ready:
        return []
    return [TrustRequest(folder=code.folder, why=f"its tools ({shortened(code.told, 400)}) run outside the sandbox", files=code.files)]


def store_request(place: StorePlace) -> list[TrustRequest]:
    """The request for the current folder, if its store is used because the user named no other; else empty. The folder must be trusted,
    because the store says which calls of tools are approved."""
    if not place.found:
        return []
    why = f"its {place.where} is used (no store was named): it says which calls of tools are approved and what code unfinished runs use"
    return [TrustRequest(folder=Path.cwd(), why=why)]


def file_request(files: OperatorFiles) -> list[TrustRequest]:
    """The request for the current folder, if its holdfast.toml has settings that need trust; else empty."""
    if files.local is None or not files.ignored:
        return []
    why = f"its {files.local} applies in full ({shortened(', '.join(files.ignored), 400)})"
    return [TrustRequest(folder=Path.cwd(), why=why, files=(files.local,), needed=False)]


def operators_settings(
    isolation: str | None, config: Path | None, consent: Consent, requests: Sequence[TrustRequest] = ()
) -> tuple[WorkerSettings, OperatorFiles]:
    """Settle these requests and the one for ./holdfast.toml. Return the operator's settings, and the files from which they come. If the
    current folder is not trusted, the settings of ./holdfast.toml that are ignored are printed. `isolation` and `config` are the options of
    the command line; None if the user gave none."""
    files = operator_files(config)
    consent.settle([*requests, *file_request(files)])
    trusted = files.local is not None and consent.has(Path.cwd()) and not faults_of(Path.cwd(), [files.local])
    if files.local is not None and files.ignored and not trusted:
        folder = Path.cwd().resolve()
        say(f"{files.local}: ignored, because {printable(str(folder))} is not trusted: {', '.join(map(printable, files.ignored))}")
        faults = faults_of(folder, [files.local])
        if faults:
            say(f"{files.local}: the folder cannot be trusted: {printable('; '.join(faults))}")
        else:
            say(f"{files.local}: to apply all of it: {shlex.join(['holdfast', 'trust', str(folder)])}")
    settings = files.settings(trusted=trusted, isolation=isolation)
    return settings, msgspec.structs.replace(files, file=files.local) if trusted and files.local is not None else files


class RunTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the user's consent allows to one `holdfast run` that runs workers."""

    settings: WorkerSettings
    tools: bool
    """Whether the file of at least one worker has tools. If True, the user has trusted the folders of these tools, or the tools are
    Holdfast's own."""
    refusal: str | None = None
    """Runs that began earlier may use older code, with its own tools. This says why such tools may not run; None if they may run."""

    def check(self, packages: Iterable[Package]) -> None:
        """Raise TrustNeeded if no worker's file had tools when the user was asked for trust, but one has tools now. The user was not asked
        about the folder of that file."""
        changed = None if self.tools else next((package for package in packages if package.tools), None)
        if changed is not None:
            raise TrustNeeded(f"{changed.source} changed while it was checked, and has tools now. Nothing was run. Try again.")


def run_terms(workers: Sequence[Path], place: StorePlace, isolation: str | None, config: Path | None, *, trust: bool) -> RunTerms:
    """Ask the user for the trust that a `holdfast run` with these workers needs. Returns what the run may do. Raises the errors of
    `Consent.settle`."""
    consent = Consent(trust=trust)
    codes = [code for worker in workers if (code := author_code(worker)) is not None]
    requests = [request for code in codes for request in code_request(code)] + (store_request(place) if codes else [])
    settings, _ = operators_settings(isolation, config, consent, requests)
    if codes or not place.found or consent.has(Path.cwd()):
        return RunTerms(settings=settings, tools=bool(codes))
    folder = Path.cwd().resolve()
    command = shlex.join(["holdfast", "trust", str(folder)])
    refusal = f"The code of this run is kept beside {place.where} in {folder}, which is not trusted. To trust it: {command}"
    return RunTerms(settings=settings, tools=False, refusal=refusal)
