"""How grave a record is, in the words of Lambda's LoggingConfig; and which records a function wants. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime.description import APPLICATION_LEVELS, Runtime

_RANKS: Final = {name: rank for rank, name in enumerate(APPLICATION_LEVELS)} | {"WARNING": 3, "CRITICAL": 5}
_USUAL: Final = _RANKS["INFO"]
"""What a record counts as that does not say how grave it is."""


class _Said(msgspec.Struct):
    level: Any = None
    timestamp: Any = None
    time: Any = None


class Wanted:
    """Which records a function wants; all of them, if its format is Text."""

    def __init__(self, runtime: Runtime) -> None:
        self.filters = runtime.log_format == "JSON"
        self._application = _RANKS[runtime.application_log_level or "INFO"]
        self._system = _RANKS[runtime.system_log_level or "INFO"]

    def from_function(self, text: bytes, level: str | None) -> bool:
        """Whether to keep what a function wrote: `level` is what its runtime client says, else a JSON object says it itself."""
        return not self.filters or (_RANKS[level] if level is not None else _rank(text)) >= self._application

    def from_platform(self, level: str) -> bool:
        """Whether to keep what the platform says."""
        return not self.filters or _RANKS[level] >= self._system


def _rank(text: bytes) -> int:
    """Lambda believes a level only beside a time."""
    if not text.lstrip().startswith(b"{"):
        return _USUAL
    try:
        said = msgspec.json.decode(text, type=_Said)
        datetime.fromisoformat(said.timestamp or said.time)
        return _RANKS.get(said.level.upper(), _USUAL)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        return _USUAL
