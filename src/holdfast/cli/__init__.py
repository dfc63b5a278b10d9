"""cli — the command line: tables for people, JSON for machines.

Belongs: commands, their help, what they print, exit codes.
Does not: decide anything about executions (service and below do).   May import: everything below it, typer, rich.
Start reading at main.py, then run.py.
"""

from holdfast.cli.main import main

__all__ = ["main"]
