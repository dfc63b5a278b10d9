"""Notes whether the author's code has read the failures of a batch. `map` and `parallel` return failures and do not raise them, so code
that never reads the result does not notice that branches failed."""

from __future__ import annotations

from typing import Any, Final

from holdfast.durable.config import CompletionConfig

_UNREAD: Final = "_unread"


class Looked:
    """The descriptor of a field of a BatchResult. When code reads the field, the result is marked as read, because the field shows the
    failures."""

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
    """Read a field without marking the result as read. This is for methods whose answer shows no failure, such as the list of the branches
    that succeeded, or the number of all branches."""
    return vars(result)[field]


def tolerates(config: CompletionConfig, reason: str, succeeded: int) -> bool:
    """Whether the author's completion config accepts the failures of a batch that has ended. `reason` is the value of the CompletionReason
    of the batch, `succeeded` the number of branches that succeeded."""
    if reason in ("MIN_SUCCESSFUL_REACHED", "CUSTOM_COMPLETION_SUCCEEDED"):
        return True
    if reason != "ALL_COMPLETED":
        return False
    if config.min_successful is not None:
        return succeeded >= config.min_successful
    return bool(config.tolerated_failure_count or config.tolerated_failure_percentage)
