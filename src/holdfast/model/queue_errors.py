"""What a queue refuses."""

from __future__ import annotations

from holdfast.model.errors import Retryable


class QueueFull(Retryable):
    """The queue takes no more executions now. Nothing was written. `store/lane_book.py` estimates when there is room again."""

    code = "overloaded"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(f"{message} Try again in {retry_after_seconds} s.")
        self.retry_after_seconds = retry_after_seconds
