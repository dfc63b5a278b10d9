"""The doctor's checks of what is installed: Python, SQLite, the packages that Holdfast needs, and its extras."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Final

import msgspec

from holdfast.cli.diagnoses import Diagnosis, Question, ok, problem, warning

_LEAST_PYTHON: Final = (3, 11)
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*(?:\(?(?P<bound>[^;)]*)\)?)?\s*(?:;\s*(?P<marker>.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_SYSTEM: Final = re.compile(r"sys_platform\s*==\s*['\"]([^'\"]+)['\"]")
_BOUND: Final = re.compile(r">=\s*([0-9][0-9.]*)")
_PURPOSES: Final = {
    "aws": "functions that run on AWS Lambda",
    "encryption": "payloads that are encrypted at rest",
    "llm": "the tool language_model",
    "metrics": "metrics of Prometheus",
    "otel": "traces of OpenTelemetry",
    "postgres": "a store in Postgres",
    "prices": "prices of models that the operator's table does not have",
    "s3": "artifacts in a bucket",
    "server": "`holdfast serve`, `holdfast dev` and the console",
}
_FOR_DEVELOPERS: Final = "dev"

Finder = Callable[[str], str | None]


class Requirement(msgspec.Struct, frozen=True):
    """A package that Holdfast, or an extra of it, needs."""

    name: str
    least: str | None
    """The oldest version that is new enough; None: any version."""
    extra: str | None
    """The extra that needs the package; None: Holdfast itself needs it."""

    def fault(self, find: Finder) -> str | None:
        """What is wrong: the package is missing or too old. None if it is installed and new enough. `find` returns the version that is
        installed, or None."""
        version = find(self.name)
        if version is None:
            return f"{self.name} is not installed"
        if self.least is not None and _numbers(version) < _numbers(self.least):
            return f"{self.name} {version} is older than {self.least}"
        return None


def installed(name: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def requirements() -> list[Requirement]:
    """The packages that the metadata of the installed Holdfast lists, without those for other operating systems."""
    found = []
    for line in metadata.requires("holdfast") or ():
        said = _REQUIREMENT.match(line)
        if said is None:
            continue
        marker = said["marker"] or ""
        systems = _SYSTEM.findall(marker)
        if systems and sys.platform not in systems:
            continue
        extra, least = _EXTRA.search(marker), _BOUND.search(said["bound"] or "")
        found.append(Requirement(said["name"], least[1] if least else None, extra[1] if extra else None))
    return found


def versions(question: Question) -> Iterator[Diagnosis]:
    """Report whether Python, SQLite and the packages that Holdfast always needs are installed and new enough."""
    from holdfast.store.backends import sqlite_versions

    running = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _LEAST_PYTHON:
        yield problem("python", f"Python {running} is too old: 3.11 or newer is needed.", "python3.11 -m pip install holdfast")
    else:
        yield ok("python", f"Python {running} runs Holdfast {installed('holdfast') or 'of a folder'}.")
    sqlite, least = sqlite_versions()
    if _numbers(sqlite) < _numbers(least):
        yield problem("sqlite", f"SQLite {sqlite} is too old: {least} or newer is needed.", "python3 -m pip install --upgrade holdfast")
    else:
        yield ok("sqlite", f"SQLite {sqlite} is new enough ({least} or newer).")
    yield from _core()


def _core(find: Finder | None = None) -> Iterator[Diagnosis]:
    needed = [requirement for requirement in requirements() if requirement.extra is None]
    faults = [fault for requirement in needed if (fault := requirement.fault(find or installed))]
    if faults:
        yield problem(
            "packages", f"Holdfast needs packages that are missing or too old: {', '.join(faults)}.", "pip install --upgrade holdfast"
        )
    else:
        yield ok("packages", f"All {len(needed)} packages that Holdfast needs are installed.")


def extras(question: Question, find: Finder | None = None) -> Iterator[Diagnosis]:
    """Report which extras are installed. An extra whose packages are missing or too old is a problem if the store needs it. Else it is a
    warning if it is `server`, or if some of its packages are installed."""
    wanted = {} if question.is_file else {"postgres": "the store is in Postgres"}
    by_extra: dict[str, list[Requirement]] = {}
    for requirement in requirements():
        if requirement.extra not in (None, _FOR_DEVELOPERS):
            by_extra.setdefault(requirement.extra or "", []).append(requirement)
    for extra, needed in sorted(by_extra.items()):
        check, purpose = f"extra {extra}", _PURPOSES.get(extra, "more features")
        faults = [fault for requirement in needed if (fault := requirement.fault(find or installed))]
        mend = f"pip install 'holdfast[{extra}]'"
        if not faults:
            yield ok(check, f"It is installed, for {purpose}.")
        elif extra in wanted:
            yield problem(check, f"It is not installed ({', '.join(faults)}), and {wanted[extra]}.", mend)
        elif extra == "server" or len(faults) < len(needed):
            yield warning(check, f"It is not complete ({', '.join(faults)}), and it is for {purpose}.", mend)
        else:
            yield ok(check, f"It is not installed; it is for {purpose}.")


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version, to compare it with another: (3, 11) for `3.11rc1`."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
