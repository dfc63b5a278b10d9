"""The program: its commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
import traceback
from typing import Annotated, Any, Final, NoReturn

import typer

from holdfast.cli import completion, keys_secret
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import printable, say
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError, Rejected, Unsuccessful

_PATIENCE_SECONDS = 1.0
_MISUSE: Final[Any] = typer.BadParameter.__mro__[
    2
]  # the base class of all mistakes in a command line; its module differs between releases of typer

COMMANDS: Final = (
    "run",
    "dev",
    "check",
    "graph",
    "replay",
    "serve",
    "runner",
    "console",
    "limits",
    "cost",
    "new",
    "trust",
    "runs",
    "executions",
    "queues",
    "callbacks",
    "approvals",
    "schedules",
    "keys",
    "audit",
    "db",
    "doctor",
)
"""The commands in the order of the help. Each is a module in this package, with a function of that name, or an `app` for a group."""


def program(*commands: str) -> typer.Typer:
    """The program with these commands; with all, if none is given. Only these are imported, because imports take most of the time of a
    short command."""
    app = typer.Typer(
        name="holdfast",
        help="Run durable functions and bounded workers that survive crashes, and look after them.",
        no_args_is_help=True,
        add_completion=not commands or completion.is_asked(os.environ),
        rich_markup_mode=None,  # the help looks the same in a terminal, a pipe and a log
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
        typed = completion.typed_command(os.environ) if completion.is_asked(os.environ) else sys.argv[1:2]
        ended = program(*(name for name in typed if name in COMMANDS))(prog_name="holdfast", standalone_mode=False)
        return ended if isinstance(ended, int) else ExitCode.OK
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except HoldfastError as error:
        say(f"error[{error.code}]: " + "\n".join(map(printable, str(error).split("\n"))))
        return exit_code_of(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except typer.Abort:
        say("Aborted!")
        return ExitCode.UNSUCCESSFUL
    except Exception as error:
        if isinstance(error, _MISUSE):
            return _misused(error)
        if (
            isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
        ):  # this is about stdout: a full disk under the store raises another error
            return _unprinted(error)
        traceback.print_exc()
        say("error[bug]: Holdfast did not expect this. The lines above say where it happened.")
        return ExitCode.BUG


def _misused(error: Any) -> int:
    """Print what is wrong with the command line, and how the command is written; for a group without a command, print its help. Returns the
    exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return ExitCode.MISTAKE
    wrong, context = error.format_message(), getattr(error, "ctx", None)
    told = printable(wrong if wrong.endswith((".", "?")) else f"{wrong}.")
    if context is not None:
        usage = " ".join(context.get_usage().split()[1:])
        told += f" Write `{usage}`; `{context.command_path} --help` tells more."
    say(f"error[invalid_parameter]: {told}")
    return ExitCode.MISTAKE


def _unprinted(error: OSError) -> int:
    """Print that standard output could not be written, and return the exit code. What the command did stays done, but its output is lost.
    Standard output becomes /dev/null, so that Python does not fail again when it flushes at exit."""
    say(f"error[output_failed]: Standard output cannot be written: {error.strerror}.")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.TROUBLE


def exit_code_of(error: HoldfastError) -> int:
    """The exit code of an error: 1 if an execution did not succeed, 2 if the caller must change something, 3 for every other error."""
    if isinstance(error, Unsuccessful):
        return ExitCode.UNSUCCESSFUL
    return ExitCode.MISTAKE if isinstance(error, Rejected) else ExitCode.TROUBLE


def _leave(code: int) -> NoReturn:
    """End the process with this exit code. It waits at most a second for threads that run handlers. If a thread still runs after that, the
    process ends all the same, and the next runner repeats what that thread has not written."""
    deadline = monotonic() + _PATIENCE_SECONDS
    handlers = [thread for thread in threading.enumerate() if thread.name.startswith("holdfast") and not thread.daemon]
    for thread in handlers:
        thread.join(max(0.0, deadline - monotonic()))
    if any(thread.is_alive() for thread in handlers):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
