"""A history as AWS's API shows it, for tests that compare it with AWS's names."""

from collections.abc import Iterable
from typing import Any

from holdfast.descriptions.history import HistoryEvent


def wire(history: Iterable[HistoryEvent]) -> list[dict[str, Any]]:
    return [event.wire() for event in history]
