"""Durations as people write them: an integer, and s, m, h or d (`30s`, `10m`, `2h`, `7d`). No other form is allowed."""

from __future__ import annotations

import re
from typing import Final

MAX_SECONDS: Final = 366 * 86_400
"""The longest interval of a schedule, and the longest time in an enqueue or in the settings of a queue: 366 days."""
HINT: Final = "Write an integer above 0 and s, m, h or d as a text: '30s', '10m', '2h', '7d'."
_FORM: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parsed(text: object) -> int | None:
    """The number of seconds of a duration; None if `text` is not a duration of this form. The number may be greater than `MAX_SECONDS`."""
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    return None if form is None else int(form[1]) * _UNITS[form[2]]


def duration_of(seconds: int) -> str:
    """The text of a duration of so many seconds, in the largest unit that gives a whole number: `7200` is `2h`."""
    unit = next(unit for unit, size in reversed(_UNITS.items()) if seconds % size == 0)
    return f"{seconds // _UNITS[unit]}{unit}"
