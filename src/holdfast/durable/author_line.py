"""Where an author's own code made a call, for messages."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)


def author_line() -> str:
    """The line of user code that made the call: the innermost frame that is not ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HERE):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
