"""Errors as text for people: the class under Holdfast's package name, the message on one line, and the line of the author's code."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import Final

from holdfast.model.operations import Failure

_OFFICIAL: Final = "aws_durable_execution_sdk_python."
_OURS: Final = "holdfast.durable."
_SHOWN: Final = 500
_PACKAGE: Final = str(Path(__file__).resolve().parents[1])
_MOST_NAME: Final = 300
MOST_FRAMES: Final = 20
MOST_FRAME: Final = 3 * _MOST_NAME
"""A frame has at most this many characters."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+", re.ASCII)
_PYTHON_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>\S+))?')


def class_of(wire: str) -> str:
    """The full name of an error's class, as authors import it. On the wire the classes of `holdfast.durable` have the package name of the
    official SDK."""
    return _OURS + wire.removeprefix(_OFFICIAL) if wire.startswith(_OFFICIAL) else wire


def brief_class(code: str) -> str:
    """For an error code that is a dotted name of a class: the class without its module. Any other error code is returned unchanged."""
    return code.rpartition(".")[2] if _DOTTED.fullmatch(code) else code


def one_line(error: Failure) -> str:
    """An error on one line: its class and the beginning of its message."""
    message = " ".join((error.message or "").split())
    if len(message) > _SHOWN:
        message = f"{message[: _SHOWN - 3]}..."
    return ": ".join(part for part in (class_of(error.type or ""), message) if part) or "(no message)"


def place_of(error: Failure) -> str | None:
    """Where an error arose, from the innermost frame of its stack trace; None if it has no stack trace.

    A Python runtime sends frames, the innermost last: the result is `file:line in function`. Another runtime sends its own lines, the
    innermost first: the result is the first line.
    """
    lines = [line.strip() for line in error.stack_trace or () if line.strip()]
    if not lines:
        return None
    frames = [found for line in lines if (found := _PYTHON_FRAME.search(line))]
    if frames:
        last = frames[-1]
        return f"{last['file']}:{last['line']}" + (f" in {last['name']}" if last["name"] else "")
    return lines[0].splitlines()[0]


def frames_of(error: BaseException) -> tuple[str, ...]:
    """The lines of code outside Holdfast that an error passed through, in the form of a Python traceback, the innermost last. If there are
    more than `MOST_FRAMES`, only that many innermost ones."""
    found = deque[str](maxlen=MOST_FRAMES)
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<")):
            told = f'File "{code.co_filename[-_MOST_NAME:]}", line {trace.tb_lineno}, in {code.co_name[-_MOST_NAME:]}'
            found.append(told.encode("utf-8", "replace").decode())  # a file name may have bytes that are not UTF-8
        trace = trace.tb_next
    return tuple(found)


def ordinal(number: int) -> str:
    """An ordinal number: 1st, 2nd, 11th."""
    return f"{number}{'th' if 10 < number % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
