"""Consent: whether a folder is trusted, asked once, given on the command line, or read from the record.

--trust                    yes, and remember it
in the record              yes, as long as no other user could change the folder
a terminal                 one question
neither                    author tools: exit 2 with the command; holdfast.toml: only what tightens applies, and the rest is named
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli.arguments import StorePlace
from holdfast.cli.terminal import printable, say, shortened
from holdfast.service.author_code import AuthorCode, author_code
from holdfast.service.operators_file import OperatorsFiles, operators_files
from holdfast.service.ownership import faults_of
from holdfast.service.trust import TrustBook, TrustNeeded, TrustRefused, check_fit
from holdfast.service.worker_runtime import WorkerSettings

if TYPE_CHECKING:
    from holdfast.workers.packages import Package


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that should be trusted, and why."""

    folder: Path
    why: str
    files: tuple[Path, ...] = ()
    needed: bool = True
    """True: the command does not run without trust. False: the command runs, and less of the folder's holdfast.toml applies."""


class Consent:
    """What the user has said about folders, for one command."""

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust
        self._book = TrustBook()
        self._given: set[Path] = set()

    def has(self, folder: Path) -> bool:
        """Whether this folder is trusted, and no other user could change it. A record that cannot be read trusts nothing."""
        if folder.resolve() in self._given:
            return True
        try:
            return self._book.trusts(folder) and not faults_of(folder)
        except TrustRefused:
            return False

    def settle(self, wishes: Sequence[Wish]) -> None:
        """See to all wishes with at most one question; raises where one is needed and the answer is no."""
        for wish in wishes:
            if wish.needed and (self._trust or self._book.trusts(wish.folder)):
                check_fit(wish.folder, wish.files)
        open_ = [wish for wish in wishes if not self._granted(wish)]
        if not open_:
            return
        if self._trust or self._asked(open_):
            self._give(open_)
        elif any(wish.needed for wish in open_):
            raise TrustNeeded(_needed(open_))

    def _granted(self, wish: Wish) -> bool:
        if wish.folder.resolve() in self._given:
            return True
        return self._book.trusts(wish.folder) and not faults_of(wish.folder, wish.files)

    def _asked(self, wishes: Sequence[Wish]) -> bool:
        """Ask, where a person can answer and the answer could be yes."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        fit = [wish for wish in wishes if wish.needed or not faults_of(wish.folder, wish.files)]
        if not fit:
            return False
        for wish in fit:
            check_fit(wish.folder, wish.files)
            say(f"{printable(str(wish.folder.resolve()))}: {printable(wish.why)}")
        folders = " and ".join(dict.fromkeys(printable(str(wish.folder.resolve())) for wish in fit))
        print(f"Trust {folders}? [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _give(self, wishes: Sequence[Wish]) -> None:
        for wish in wishes:
            if not wish.needed and faults_of(wish.folder, wish.files):
                continue  # it is told with what is ignored because of it
            check_fit(wish.folder, wish.files)
            real = wish.folder.resolve()
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


def _needed(wishes: Sequence[Wish]) -> str:
    needed = [wish for wish in wishes if wish.needed]
    folders = dict.fromkeys(str(wish.folder.resolve()) for wish in needed)
    told = "; ".join(f"{folder} is not trusted: {_reasons(needed, folder)}" for folder in folders)
    more = [wish for wish in wishes if not wish.needed and str(wish.folder.resolve()) in folders]
    also = f" Trust then also means: {'; '.join(wish.why for wish in more)}." if more else ""
    return f"{told}. Nothing was run. If you trust what is there: {shlex.join(['holdfast', 'trust', *folders])} (or add --trust).{also}"


def _reasons(wishes: Sequence[Wish], folder: str) -> str:
    return ", and ".join(wish.why for wish in wishes if str(wish.folder.resolve()) == folder)


# --- what commands wish for


def code_wish(code: AuthorCode) -> list[Wish]:
    """The folder of tools that would run outside the sandbox; Holdfast's own needs no wish."""
    if code.ready:
        return []
    return [Wish(folder=code.folder, why=f"its tools ({shortened(code.told, 400)}) run outside the sandbox", files=code.files)]


def store_wish(place: StorePlace) -> list[Wish]:
    """The current folder, where its store is taken because the command names none: what is in it decides which calls tools make."""
    if not place.found:
        return []
    why = f"{place.where} there (no other store was named) says which calls of tools are approved and which code unfinished runs go on with"
    return [Wish(folder=Path.cwd(), why=why)]


def file_wish(files: OperatorsFiles) -> list[Wish]:
    """The current folder, where its holdfast.toml says more than it may."""
    if files.local is None or not files.ignored:
        return []
    why = f"its {files.local} applies whole ({shortened(', '.join(files.ignored), 400)})"
    return [Wish(folder=Path.cwd(), why=why, files=(files.local,), needed=False)]


def operators_settings(
    isolation: str | None, config: Path | None, consent: Consent, wishes: Sequence[Wish] = ()
) -> tuple[WorkerSettings, OperatorsFiles]:
    """The operator's settings, after consent to these wishes and to ./holdfast.toml; what of that file does not apply is named."""
    files = operators_files(config)
    consent.settle([*wishes, *file_wish(files)])
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
    """What holds for one `holdfast run` of a worker."""

    settings: WorkerSettings
    tools: bool
    """The file has tools, and the user has trusted them."""
    refusal: str | None = None
    """Why tools of older code in the store may not run, if they may not."""

    def check(self, packages: Iterable[Package]) -> None:
        """Refuse tools that are in the file now and were not when the user was asked: another user may own the folder."""
        changed = None if self.tools else next((package for package in packages if package.tools), None)
        if changed is not None:
            raise TrustNeeded(f"{changed.source} has changed while it was looked at, and has tools now. Nothing was run. Try again.")


def run_terms(worker: Path, place: StorePlace, isolation: str | None, config: Path | None, *, trust: bool) -> RunTerms:
    """For `holdfast run` of a worker: everything that consent decides."""
    consent = Consent(trust=trust)
    code = author_code(worker)
    wishes = [] if code is None else [*code_wish(code), *store_wish(place)]
    settings, _ = operators_settings(isolation, config, consent, wishes)
    if code is not None or not place.found or consent.has(Path.cwd()):
        return RunTerms(settings=settings, tools=code is not None)
    folder = Path.cwd().resolve()
    command = shlex.join(["holdfast", "trust", str(folder)])
    refusal = f"The code of this run lies beside {place.where} of {folder}, which is not trusted: {command}"
    return RunTerms(settings=settings, tools=False, refusal=refusal)
