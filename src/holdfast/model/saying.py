"""How an error is told to people: its class by our own package's name, its message on one line, and where in the author's code it arose."""

from __future__ import annotations

import re
from typing import Final

from holdfast.model.operations import Failure

_OFFICIAL: Final = "aws_durable_execution_sdk_python."
_OURS: Final = "holdfast.durable."
_SHOWN: Final = 500
_PYTHON_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>\S+))?')


def class_of(wire: str) -> str:
    """The class of an error as authors import it: on the wire our classes have the official SDK's package."""
    return _OURS + wire.removeprefix(_OFFICIAL) if wire.startswith(_OFFICIAL) else wire


def said(error: Failure) -> str:
    """An error on one line: its class and the beginning of its message."""
    message = " ".join((error.message or "").split())
    if len(message) > _SHOWN:
        message = f"{message[: _SHOWN - 3]}..."
    return ": ".join(part for part in (class_of(error.type or ""), message) if part) or "(no message)"


def place_of(error: Failure) -> str | None:
    """Where an error arose, as `file:line in function`: from the innermost frame of its stack trace, if it has one.

    A Python runtime sends frames, the innermost last; other runtimes send lines of their own, the innermost first.
    """
    lines = [line.strip() for line in error.stack_trace or () if line.strip()]
    if not lines:
        return None
    frames = [found for line in lines if (found := _PYTHON_FRAME.search(line))]
    if frames:
        last = frames[-1]
        return f"{last['file']}:{last['line']}" + (f" in {last['name']}" if last["name"] else "")
    return lines[0].splitlines()[0]


def ordinal(number: int) -> str:
    """A number as a place in a row: 1st, 2nd, 11th."""
    return f"{number}{'th' if 10 < number % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
