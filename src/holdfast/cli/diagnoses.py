"""Diagnoses: the results of the checks of `holdfast doctor`, and how a check runs although it may itself fail or hang."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from holdfast.model.errors import HoldfastError

PATIENCE_SECONDS: Final = 20.0
"""How many seconds a check may take. If it takes longer, `made` stops waiting for it and reports a problem."""
_AGAIN: Final = "holdfast doctor"


class DiagnosisLevel(StrEnum):
    """How bad the result of a check is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Diagnosis(msgspec.Struct, frozen=True):
    """One line of the output of `holdfast doctor`: the result of a check."""

    check: str
    """The name of the check."""
    level: DiagnosisLevel
    said: str
    """The result in one sentence."""
    mend: str | None = None
    """The command that mends what is wrong, or that helps to find the cause. None if all is well."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks look at."""

    where: str
    """The store's path or address."""
    host: str
    port: int
    config: Path | None
    environment: Mapping[str, str]
    began_wall: int
    """The wall clock when the command began, in milliseconds since 1970."""
    began_monotonic: float
    """The monotonic clock when the command began, in seconds."""

    @property
    def is_file(self) -> bool:
        """Whether the store is a file of this machine."""
        return "://" not in self.where

    def command(self, *words: str) -> str:
        """A command of Holdfast for this store. The address of a database is left out, because it may have a password."""
        return shlex.join(["holdfast", *words, *(["--store", self.where] if self.is_file else [])])


DoctorCheck = Callable[[Question], Iterable[Diagnosis]]


def ok(check: str, said: str) -> Diagnosis:
    """A diagnosis: all is well."""
    return Diagnosis(check, DiagnosisLevel.OK, said)


def warning(check: str, said: str, mend: str) -> Diagnosis:
    """A diagnosis: Holdfast works, but what was found may cause trouble."""
    return Diagnosis(check, DiagnosisLevel.WARNING, said, mend)


def problem(check: str, said: str, mend: str) -> Diagnosis:
    """A diagnosis: something does not work."""
    return Diagnosis(check, DiagnosisLevel.PROBLEM, said, mend)


def made(name: str, check: DoctorCheck, question: Question, seconds: float = PATIENCE_SECONDS) -> Sequence[Diagnosis]:
    """Run a check and return its diagnoses. If the check itself fails or does not end within `seconds`, the result also has a problem that
    says so. An error of the check is never raised, so that the other checks still run."""
    found: list[Diagnosis] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.extend(check(question))
        except BaseException as error:  # also SystemExit: a broken package may raise anything while it is imported
            failed.append(error)

    thread = threading.Thread(target=work, name=f"doctor-{name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return [*found, problem(name, f"The check did not end within {seconds:g} s.", _AGAIN)]
    for error in failed:
        if isinstance(error, HoldfastError):
            found.append(problem(name, f"error[{error.code}]: {sentence(str(error))}", _AGAIN))
        else:
            found.append(problem(name, f"The check itself failed: {type(error).__name__}: {sentence(str(error))}", _AGAIN))
    return found


def sentence(text: str) -> str:
    """A message on one line, with a full stop if it does not end with `.`, `!` or `?`."""
    told = " ".join(text.split())
    return told if told.endswith((".", "!", "?")) else f"{told}."
