"""`holdfast replay`: today's code over an exported execution, to see whether it still matches; nothing is written."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli.arguments import JsonOption
from holdfast.cli.terminal import print_document, printable, say
from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.service.loading import load
from holdfast.service.replaying import replay as replayed

_MISMATCH = 1


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A document that `executions export` made, with its data.")],
    target: Annotated[str, typer.Argument(metavar="FILE:FUNCTION", help="The function, as for `holdfast run`.")],
    json_output: JsonOption = False,
) -> None:
    """Run a function over an exported execution and tell how far its records carry today's code.

    No step's body runs and nothing is written. The exit code is 0 if the code matches the records, and 1 if it does not.
    """
    with contextlib.redirect_stdout(sys.stderr):
        function = load(target).function
        try:
            told = replayed(file, function)
        except NonDeterministicExecutionError as mismatch:
            say(f"error[{mismatch.code}]: {printable(str(mismatch))}")
            raise typer.Exit(_MISMATCH) from None
    if json_output:
        print_document(msgspec.to_builtins(told))
    else:
        print(f"{'matches' if told.matches else 'does not match'}: {printable(told.why)}")
    if not told.matches:
        raise typer.Exit(_MISMATCH)
