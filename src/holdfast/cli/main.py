"""The program: its commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
import traceback
from typing import Annotated, Final, NoReturn

import typer

from holdfast.cli import keys_secret
from holdfast.cli.terminal import printable, say
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError, Rejected, Unsuccessful

UNSUCCESSFUL, MISTAKE, TROUBLE, BUG, INTERRUPTED = 1, 2, 3, 70, 130
_PATIENCE_SECONDS = 1.0

COMMANDS: Final = (
    "run",
    "check",
    "replay",
    "serve",
    "limits",
    "new",
    "trust",
    "runs",
    "executions",
    "callbacks",
    "approvals",
    "keys",
    "audit",
    "db",
)
"""As the help lists them. Each is a module beside this one, with a function of that name or, for a group of commands, an `app`."""


def program(*commands: str) -> typer.Typer:
    """The program with these commands, or with all. A short command spends most of its time on loading, so others are left out."""
    app = typer.Typer(
        name="holdfast",
        help="Run durable functions and bounded workers that survive crashes, and look after them.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # help that looks the same in a terminal, a pipe and a log
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in commands or COMMANDS:
        module = importlib.import_module(f"holdfast.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # slow to load, and only needed here

        print(f"holdfast {version('holdfast')}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    keys_secret.take()
    code = _exit_code()
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _unprinted(error)
    _leave(code)


def _exit_code() -> int:
    try:
        program(*(name for name in sys.argv[1:2] if name in COMMANDS))(prog_name="holdfast")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except HoldfastError as error:
        say(f"error[{error.code}]: " + "\n".join(map(printable, str(error).split("\n"))))
        return exit_code_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:  # a store's disk has an error of its own
            return _unprinted(error)
        traceback.print_exc()
        say("error[bug]: Holdfast did not expect this. The lines above say where it happened.")
        return BUG
    return 0


def _unprinted(error: OSError) -> int:
    """What was done stays done, but nobody could read of it; nor is there any use in trying again when the process ends."""
    say(f"error[output_failed]: Standard output cannot be written: {error.strerror}.")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return TROUBLE


def exit_code_of(error: HoldfastError) -> int:
    """Whose turn it is: the execution ended badly (1), the caller must change something (2), or the store is in trouble (3)."""
    if isinstance(error, Unsuccessful):
        return UNSUCCESSFUL
    return MISTAKE if isinstance(error, Rejected) else TROUBLE


def _leave(code: int) -> NoReturn:
    """End now, also when a handler's thread goes on: what it did not write yet does not count, and the next runner repeats it."""
    deadline = monotonic() + _PATIENCE_SECONDS
    handlers = [thread for thread in threading.enumerate() if thread.name.startswith("holdfast") and not thread.daemon]
    for thread in handlers:
        thread.join(max(0.0, deadline - monotonic()))
    if any(thread.is_alive() for thread in handlers):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
