"""The author's line: the line of the author's code that a message about a mistake names."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Final, NamedTuple

from holdfast.durable.exceptions import CheckpointError, ExecutionError, ValidationError

_OURS: Final = str(Path(__file__).resolve().parents[1])
_PYTHON: Final = sysconfig.get_path("stdlib")
_REFUSALS: Final = (ValidationError, ExecutionError, CheckpointError, TypeError, AttributeError)
_PACKAGES: Final = ("site-packages", "dist-packages")


class Line(NamedTuple):
    """A line of code: its file, its number, and the name of the function around it."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number} in {self.function}"


def raised_at(error: BaseException) -> Line | None:
    """The innermost line of the author's own code in an error's traceback. If there is none, the innermost line outside Holdfast, in a
    library; if there is none of these either, None."""
    lines = list(_lines(error.__traceback__))
    for is_candidate in (_is_authors, _is_not_ours):
        for line in reversed(lines):
            if is_candidate(line.file):
                return line
    return None


def is_refusal(error: BaseException) -> bool:
    """Whether Holdfast's own code raised the error: a check refused a value, or the author's function does not accept the arguments that
    Holdfast calls it with. Such an error would be raised again in every attempt."""
    lines = list(_lines(error.__traceback__))
    return bool(lines) and lines[-1].file.startswith(_OURS)


def refused_at(exception: BaseException, through: BaseException) -> str:
    """The author's line as ` (at file:line in function)`, if Holdfast raised `exception` because a durable call is written wrongly. An
    empty text for any other error, and if the line is unknown or the message already names it.

    `through` is the exception that passed through the author's code: `exception` itself, or an exception that contains it.
    """
    if not isinstance(exception, _REFUSALS) or getattr(exception, "tells_line", False) or not is_refusal(through):
        return ""
    line = raised_at(through)
    return "" if line is None else f" (at {line})"


def calling_frame(depth: int) -> FrameType:
    """The innermost frame outside Holdfast's code. The search goes outwards, and begins `depth` frames above the function that calls this
    one."""
    frame = sys._getframe(depth + 1)
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def author_line() -> str:
    """`file:line` of the author's code that called Holdfast, found on the present call stack."""
    frame = calling_frame(1)
    while _is_generated(frame) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_generated(frame: FrameType) -> bool:
    """Whether the frame runs a method of Holdfast's that Python generated, such as the `__init__` of a dataclass."""
    return frame.f_code.co_filename == "<string>" and str(frame.f_globals.get("__name__")).startswith("holdfast.")


def line_at(code: CodeType, instruction: int) -> Line:
    """The line of an instruction of `code`; `instruction` is its offset in bytes, as in `frame.f_lasti`. Callers keep the instruction and
    not the line, because it costs less to read it from a frame."""
    positions = list(code.co_positions())
    number = positions[instruction // 2][0] if 0 <= instruction // 2 < len(positions) else None
    return Line(code.co_filename, number or code.co_firstlineno, code.co_name)


def _lines(trace: TracebackType | None) -> Iterator[Line]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield Line(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next


def _is_not_ours(file: str) -> bool:
    return not file.startswith((_OURS, "<"))


def _is_authors(file: str) -> bool:
    return _is_not_ours(file) and not file.startswith(_PYTHON) and not any(folder in file for folder in _PACKAGES)
