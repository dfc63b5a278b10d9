"""`holdfast doctor`: looks at the store, the machine and the configuration, and says what is wrong and which command mends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli import doctor_configuration, doctor_machine, doctor_packages, doctor_store
from holdfast.cli.arguments import ConfigOption, JsonOption, StoreOption, StorePlace
from holdfast.cli.diagnoses import Diagnosis, DiagnosisLevel, DoctorCheck, Question, made
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, printable, say, working
from holdfast.model.clock import SystemClock, monotonic
from holdfast.store.shown_address import shown

CHECKS: Final[Sequence[tuple[str, DoctorCheck]]] = (
    ("versions", doctor_packages.versions),
    ("extras", doctor_packages.extras),
    ("permissions", doctor_store.permissions),
    ("store", doctor_store.store),
    ("disk", doctor_store.disk),
    ("user", doctor_machine.user),
    ("sandbox", doctor_machine.sandbox),
    ("cgroups", doctor_machine.cgroups),
    ("port", doctor_machine.port),
    ("configuration", doctor_configuration.configuration),
    ("trust", doctor_configuration.trust),
    ("time zones", doctor_machine.zones),
    ("clock", doctor_machine.clock),
)
"""All checks, in the order of the output. Permissions come before the store, because a program that opens a store changes them. The clock
comes last, because it compares two clocks over the time of the whole command."""
_COLOURS: Final = {DiagnosisLevel.OK: "green", DiagnosisLevel.WARNING: "yellow", DiagnosisLevel.PROBLEM: "bold red"}
_WIDTH: Final = max(len(level) for level in DiagnosisLevel)


def doctor(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address on which a server would listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="The port on which a server would listen.", min=1, max=65535)] = 9001,
    config: ConfigOption = None,
    json_output: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Look at the store, the machine and the configuration. Nothing is changed.

    Each line has a word (ok, warning or problem) and a sentence. A line of a warning or a problem also has a command, which mends it or
    helps to find its cause. The exit code is 3 if there is a problem.
    """
    question = Question(
        where=StorePlace.of(store, None).where,
        host=host,
        port=port,
        config=config,
        environment=os.environ,
        began_wall=SystemClock().now(),
        began_monotonic=monotonic(),
    )
    with working(f"looking at {shown(question.where)}, the machine and the configuration", only_in_terminal=True):
        found = [diagnosis for name, check in CHECKS for diagnosis in made(name, check, question)]
    counts = {level: sum(one.level is level for one in found) for level in DiagnosisLevel}
    if json_output:
        checks = [{"check": one.check, "level": one.level.value, "said": one.said, "mend": one.mend} for one in found]
        print_document({"problems": counts[DiagnosisLevel.PROBLEM], "warnings": counts[DiagnosisLevel.WARNING], "checks": checks})
    else:
        _print(found)
        problems, warnings = counts[DiagnosisLevel.PROBLEM], counts[DiagnosisLevel.WARNING]
        say(f"{len(found)} checks: {_counted(problems, 'problem')}, {_counted(warnings, 'warning')}")
    if counts[DiagnosisLevel.PROBLEM]:
        raise typer.Exit(ExitCode.TROUBLE)


def _print(found: Sequence[Diagnosis]) -> None:
    """Print one line for each diagnosis. In a terminal, its first word has a colour."""
    console = Console(highlight=False, soft_wrap=True)
    for one in found:
        mend = "" if one.mend is None else f" Mend it with: {one.mend}"
        line = f"{one.level.value:<{_WIDTH}}  {one.check}: {printable(one.said)}{printable(mend)}"
        if sys.stdout.isatty():
            text = Text(line)
            text.stylize(_COLOURS[one.level], 0, len(one.level.value))
            console.print(text)
        else:
            print(line)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
