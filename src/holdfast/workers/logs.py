"""Log lines in a response: the log fields that a contract names, and the limit on the size of all lines together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.model import codec
from holdfast.model.errors import HoldfastError

MOST_LOG_BYTES: Final = 256 * 1024
"""The most bytes of log lines in one response."""


def log_fields(names: Iterable[str], known: Mapping[str, Any], logs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A value for each field in `names`. It is the runtime's value, if `known` has the field; else the value in the last line of `logs`
    that has the field; else None."""
    logged: dict[str, Any] = {}
    for record in logs:
        logged.update(record)
    return {name: known[name] if name in known else logged.get(name) for name in names}


def joined(earlier: tuple[dict[str, Any], ...], logs: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """The lines of earlier attempts (`earlier`), then those of one more attempt (`logs`). If they are larger than MOST_LOG_BYTES together,
    the oldest lines are dropped. Without `earlier`, `logs` is returned as it is."""
    if not earlier:
        return logs
    kept: list[dict[str, Any]] = []
    size = 0
    for record in reversed((*earlier, *logs)):
        size += size_of(record)
        if size > MOST_LOG_BYTES:
            break
        kept.append(record)
    return tuple(reversed(kept))


def size_of(record: Mapping[str, Any]) -> int:
    """About how many bytes a line has as JSON; MOST_LOG_BYTES for a line that is not JSON."""
    try:
        return len(codec.dumps(record))
    except HoldfastError:
        return MOST_LOG_BYTES
