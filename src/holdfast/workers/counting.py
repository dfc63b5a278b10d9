"""The keys of the counters that runs share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

NANO: Final = 10**9
"""Money is counted in billionths of a dollar."""


def day_of(now: int) -> tuple[str, int]:
    """The UTC day of a time, and when it is over."""
    at = datetime.fromtimestamp(now / 1000, UTC)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return at.strftime("%Y-%m-%d"), int(midnight.timestamp() * 1000)


def key_part(text: str) -> str:
    """A text as part of a counter's key: whatever it holds, it stays within its place."""
    safe = text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return safe if len(safe) <= 100 else sha256(text.encode(errors="replace")).hexdigest()
