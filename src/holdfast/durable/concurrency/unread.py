"""Whether the code has read the failures of a batch. `map` and `parallel` return failures and do not raise them, so code that never reads
the result does not notice them."""

from __future__ import annotations

from typing import Any, Final

from holdfast.durable.config import CompletionConfig

_UNREAD: Final = "_unread"


class Looked:
    """The descriptor of a field of a BatchResult. Code that reads the field has seen the failures: the result is then marked as read."""

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
    """Whether the result was marked with `watch`, and has not been read since."""
    return _UNREAD in vars(result)


def quietly(result: Any, field: str) -> Any:
    """Read a field without marking the result as read. For methods that return only branches without a failure, or the number of all
    branches: the caller of such a method has not seen a failure."""
    return vars(result)[field]


def tolerates(config: CompletionConfig, reason: str, succeeded: int) -> bool:
    """Whether the author's completion config accepts failures in a batch that ended for this reason, with this many successes."""
    if reason in ("MIN_SUCCESSFUL_REACHED", "CUSTOM_COMPLETION_SUCCEEDED"):
        return True
    if reason != "ALL_COMPLETED":
        return False
    if config.min_successful is not None:
        return succeeded >= config.min_successful
    return bool(config.tolerated_failure_count or config.tolerated_failure_percentage)
