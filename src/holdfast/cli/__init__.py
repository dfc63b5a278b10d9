"""cli — the command line: tables for people, JSON for programs.

Belongs: commands, their help, their output, exit codes. A command is a module of its name; a part of one begins with its name
(check_files.py, doctor_store.py, serve_workers.py). What commands share: arguments.py, terminal.py, show.py, consent.py, completion.py,
exit_codes.py. What `run` and `runs follow` print while work goes on: foreground_run.py, live_pipeline.py, event_lines.py.
Does not: decide anything about executions (service and below do).   May import: everything below it, typer, rich.
Start reading at main.py, which lists the commands. Then run.py and foreground_run.py.
"""

import os
import sys

# `python -m holdfast.cli` puts the current folder first on the import path: a typer.py there would be imported instead of the real one.
# While Python loads the package of a `-m`, sys.argv[0] is only `-m`.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from holdfast.cli.main import main

__all__ = ["main"]
