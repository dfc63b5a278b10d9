"""Log levels of Lambda's LoggingConfig, and which records of a function are kept. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime.runtime_description import APPLICATION_LEVELS, Runtime
from holdfast.model import json_structs

_RANKS: Final = {name: rank for rank, name in enumerate(APPLICATION_LEVELS)} | {"WARNING": 3, "CRITICAL": 5}
_USUAL: Final = _RANKS["INFO"]
"""The level of a record that does not state one."""


class _LogLine(msgspec.Struct):
    level: Any = None
    timestamp: Any = None
    time: Any = None


class LogLevels:
    """Decides which log records of a function are kept. With LogFormat Text, all records are kept."""

    def __init__(self, runtime: Runtime) -> None:
        self.filters = runtime.log_format == "JSON"
        self._application = _RANKS[runtime.application_log_level or "INFO"]
        self._system = _RANKS[runtime.system_log_level or "INFO"]

    def from_function(self, text: bytes, level: str | None) -> bool:
        """Whether to keep a record that the function wrote. `level` is the level that the runtime client gave with the record. If it is
        None, the level inside the text is used if the text is a JSON record; else the level is INFO."""
        return not self.filters or (_RANKS[level] if level is not None else _rank(text)) >= self._application

    def from_platform(self, level: str) -> bool:
        """Whether to keep a record that the platform wrote about the function."""
        return not self.filters or _RANKS[level] >= self._system


def _rank(text: bytes) -> int:
    """The rank of the level in a JSON record. As on Lambda, the record must also have a time in ISO 8601. Without a time, or without a
    known level, the rank is that of INFO."""
    if not text.lstrip().startswith(b"{"):
        return _USUAL
    try:
        said = json_structs.decoded(text, _LogLine)
        datetime.fromisoformat(said.timestamp or said.time)
        return _RANKS.get(said.level.upper(), _USUAL)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        return _USUAL
