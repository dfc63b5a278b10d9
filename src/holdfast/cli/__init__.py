"""cli — the command line: tables for people, JSON for machines.

Belongs: commands, their help, what they print, exit codes.
Does not: decide anything about executions (service and below do).   May import: everything below it, typer, rich.
Start reading at main.py, then run.py.
"""

import os
import sys

# `python -m holdfast.cli` puts the current folder before everything else that is imported: a typer.py in it would run as ours.
# While the package of a `-m` is loaded, Python has only `-m` as the program's name.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from holdfast.cli.main import main

__all__ = ["main"]
