"""Retry-After: how long a server asks clients to wait, in seconds or as a date. The time is limited, because a server may be hostile."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_SECONDS: Final = 24 * 3600.0
USUAL_SECONDS: Final = 60.0
"""How many seconds to wait if a server refuses a request because of its load and does not say how long to wait."""


def retry_after(header: str | None, now: int) -> float | None:
    """How many seconds after `now` (in milliseconds since 1970) the server may be asked again, from 0 to LONGEST_SECONDS; None if the
    header is missing or is neither a number nor a date."""
    if header is None or not header.strip():
        return None
    text = header.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now / 1000
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), LONGEST_SECONDS)
