"""The program: its commands, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import Annotated, NoReturn

import typer

from holdfast.cli import approvals, callbacks, check, executions, keys, limits, new, replay, run, runs, serve
from holdfast.cli.terminal import say
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError, Rejected, Unsuccessful

UNSUCCESSFUL, MISTAKE, TROUBLE, BUG, INTERRUPTED = 1, 2, 3, 70, 130
_PATIENCE_SECONDS = 1.0

app = typer.Typer(
    name="holdfast",
    help="Run durable functions and bounded workers that survive crashes, and look after them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # help that looks the same in a terminal, a pipe and a log
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("check")(check.check)
app.command("replay")(replay.replay)
app.command("serve")(serve.serve)
app.command("limits")(limits.limits)
app.add_typer(new.app, name="new")
app.add_typer(runs.app, name="runs")
app.add_typer(executions.app, name="executions")
app.add_typer(callbacks.app, name="callbacks")
app.add_typer(approvals.app, name="approvals")
app.add_typer(keys.app, name="keys")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # slow to load, and only needed here

        print(f"holdfast {version('holdfast')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    _leave(_exit_code())


def _exit_code() -> int:
    try:
        app(prog_name="holdfast")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except HoldfastError as error:
        say(f"error[{error.code}]: {error}")
        return exit_code_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        say("error[bug]: Holdfast did not expect this. The lines above say where it happened.")
        return BUG
    return 0


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
