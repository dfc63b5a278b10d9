"""The lines of one attempt's log: the first ones stay, and the last says how many are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from holdfast.workers.observing import MOST_LOG_BYTES, size_of

_MESSAGE_LENGTH: Final = 4000
_FIELDS_BYTES: Final = 16 * 1024


class Watcher(Protocol):
    """Gets the progress and the log lines of a body while the body works."""

    def progressed(self, data: Any) -> None: ...
    async def hidden(self, record: dict[str, Any]) -> dict[str, Any]:
        """A line without secrets."""
        ...

    def logged(self, record: dict[str, Any], *, clean: bool = False) -> dict[str, Any]:
        """Comes back as it may be kept. A clean one has been `hidden` already."""
        ...


class Lines:
    """What the body logs, and what the runner has to say about it."""

    def __init__(self, attempt: int, watcher: Watcher, most: int) -> None:
        self._attempt = attempt
        self._watcher = watcher
        self._most = most
        self._lines: list[dict[str, Any]] = []
        self._count = self._bytes = self._missing = 0

    async def said(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """A line of the body's own."""
        if self._is_beyond():
            return
        given = {name: value for name, value in fields.items() if name != "event"}
        if given and size_of(given) > _FIELDS_BYTES:
            given = {"truncated": True}
        self._keep(self._watcher.logged(await self._watcher.hidden(self._record(level[:20], message, given)), clean=True))

    def add(self, level: str, message: str, fields: dict[str, Any]) -> None:
        """A line of the runner's."""
        if not self._is_beyond():
            self._keep(self._watcher.logged(self._record(level, message, fields)))

    def _is_beyond(self) -> bool:
        """Count one more line. The watcher does not get a line beyond the most; a line beyond the bytes is told and not kept."""
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
        """All of them, and a last one when some are missing."""
        if not self._missing:
            return tuple(self._lines)
        missing = {"level": "warning", "message": f"{self._missing} more lines were not kept.", "attempt": self._attempt}
        return (*self._lines, missing)
