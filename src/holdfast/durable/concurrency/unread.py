"""Whether the code has read the failures of a batch: `map` and `parallel` return failures, and code that never reads them misses them."""

from __future__ import annotations

from typing import Any, Final

from holdfast.durable.config import CompletionConfig

_UNREAD: Final = "_unread"


class Looked:
    """A field of a result. Code that reads the field has seen the failures."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, result: Any, owner: type) -> Any:
        if result is None:
            return self
        held = vars(result)
        held.pop(_UNREAD, None)
        return held[self._name]

    def __set__(self, result: Any, value: object) -> None:
        vars(result)[self._name] = value


def watch(result: Any) -> None:
    """Mark a result as not read."""
    vars(result)[_UNREAD] = True


def is_unread(result: Any) -> bool:
    """Whether the result has not been read since."""
    return _UNREAD in vars(result)


def quietly(result: Any, field: str) -> Any:
    """Read a field without marking the result as read, because this field (results of good branches, counts) says nothing about
    failures."""
    return vars(result)[field]


def tolerates(config: CompletionConfig, reason: str, succeeded: int) -> bool:
    """Whether the author's completion config accepts a batch that ended like this, with failures."""
    if reason in ("MIN_SUCCESSFUL_REACHED", "CUSTOM_COMPLETION_SUCCEEDED"):
        return True
    if reason != "ALL_COMPLETED":
        return False
    if config.min_successful is not None:
        return succeeded >= config.min_successful
    return bool(config.tolerated_failure_count or config.tolerated_failure_percentage)
