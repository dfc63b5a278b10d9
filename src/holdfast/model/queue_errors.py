"""The error of a queue that accepts no more executions now."""

from __future__ import annotations

from holdfast.model.errors import Retryable


class QueueFull(Retryable):
    """The queue accepts no more executions now. Nothing was written.

    Too many executions wait in it, one of them has waited too long, together with this one they may cost too much, or an operator drains
    the queue. `retry_after_seconds` is an estimate of the time until there is room again. It is 60 if the time cannot be estimated, for
    example in a paused queue (store/lane_book.py).
    """

    code = "overloaded"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(f"{message} Try again in {retry_after_seconds} s.")
        self.retry_after_seconds = retry_after_seconds
