"""Whether anybody looked at the failures of a batch: `map` and `parallel` return them, and code that never asks goes on without them."""

from __future__ import annotations

from typing import Any, Final

from holdfast.durable.config import CompletionConfig

_UNREAD: Final = "_unread"


class Looked:
    """A field of a result; who reads it has seen what failed."""

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
    """Remember that nobody has looked yet."""
    vars(result)[_UNREAD] = True


def is_unread(result: Any) -> bool:
    """Whether nobody has looked since."""
    return _UNREAD in vars(result)


def quietly(result: Any, field: str) -> Any:
    """A field, for what says nothing of failures: the results of the branches that succeeded, and counts of others."""
    return vars(result)[field]


def tolerates(config: CompletionConfig, reason: str, succeeded: int) -> bool:
    """Whether the author's own completion config says that a batch which ended so, with failures, is as it should be."""
    if reason in ("MIN_SUCCESSFUL_REACHED", "CUSTOM_COMPLETION_SUCCEEDED"):
        return True
    if reason != "ALL_COMPLETED":
        return False
    if config.min_successful is not None:
        return succeeded >= config.min_successful
    return bool(config.tolerated_failure_count or config.tolerated_failure_percentage)
