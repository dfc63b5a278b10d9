"""The log of one attempt. If it has too many lines or bytes, the first lines are kept, and one more line says how many are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.workers.logs import MOST_LOG_BYTES, size_of
from holdfast.workers.run_reporters import RunReporter
from holdfast.workers.tools.seam import Reservation

_MESSAGE_LENGTH: Final = 4000
_FIELDS_BYTES: Final = 16 * 1024


class AttemptLog:
    """The lines that the body logs, and the lines that the runner adds."""

    def __init__(self, attempt: int, reporter: RunReporter, most: int) -> None:
        self._attempt = attempt
        self._reporter = reporter
        self._most = most
        self._lines: list[dict[str, Any]] = []
        self._count = self._bytes = self._missing = 0

    async def add_from_body(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Add a line that the body logged, without the secrets of the run's inputs. A long message is cut off. The fields `event` and
        `attempt` of the body are left out. If the fields are too large, all of them are left out, and the line has `truncated: true`. If
        the attempt has too many lines already, the line is dropped."""
        if self._is_beyond():
            return
        given = {name: value for name, value in fields.items() if name != "event"}
        if given and size_of(given) > _FIELDS_BYTES:
            given = {"truncated": True}
        clean = await self._reporter.without_secrets(self._record(level[:20], message, given))
        self._keep(self._reporter.logged(clean, clean=True))

    def add(self, level: str, message: str, fields: dict[str, Any]) -> None:
        """Add a line that the runner itself writes, unless the attempt has too many lines already."""
        if not self._is_beyond():
            self._keep(self._reporter.logged(self._record(level, message, fields)))

    def add_overshoot(self, tool: str, beyond: Reservation | None) -> None:
        """Add a line about `beyond`, what a call used beyond its reservation. If `beyond` is None, add nothing."""
        if beyond is not None:
            told = f"{tool} used {beyond.tokens} tokens and ${beyond.cost_usd:f} more than was reserved for it."
            amounts = {"tokens": beyond.tokens, "cost_usd": float(beyond.cost_usd)}
            self.add("warning", told, {"event": "overshoot", "tool": tool, **amounts})

    def _is_beyond(self) -> bool:
        """Count one more line. Returns whether the attempt now has more lines than it may have. If so, the caller drops the line: observers
        and followers do not get it, and it is not kept for the response. (A line that only passes the limit of bytes is still reported to
        them.)"""
        self._count += 1
        self._missing += self._count > self._most
        return self._count > self._most

    def _record(self, level: str, message: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "level": level, "message": message[:_MESSAGE_LENGTH], "attempt": self._attempt}

    def _keep(self, kept: dict[str, Any]) -> None:
        size = size_of(kept)
        if self._bytes + size <= MOST_LOG_BYTES and not self._missing:
            self._lines.append(kept)
            self._bytes += size
        else:
            self._missing += 1

    def kept(self) -> tuple[dict[str, Any], ...]:
        """The kept lines. If other lines were not kept, one more line at the end says how many."""
        if not self._missing:
            return tuple(self._lines)
        missing = {"level": "warning", "message": f"{self._missing} more lines were not kept.", "attempt": self._attempt}
        return (*self._lines, missing)
