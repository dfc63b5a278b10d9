"""The errors about queues."""

from __future__ import annotations

from holdfast.model.errors import Rejected, Retryable


class QueueFull(Retryable):
    """The queue accepts no more executions now. The refused execution was not written.

    Too many executions wait in it, one of them has waited too long, together with this one they may cost too much, or an operator drains
    the queue. `retry_after_seconds` is an estimate of the time until there is room again. It is 60 if the time cannot be estimated, for
    example in a paused queue.
    """

    code = "overloaded"

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(f"{message} Try again in {retry_after_seconds} s.")
        self.retry_after_seconds = retry_after_seconds


class QueueNotFound(Rejected):
    """The store has no queue with this name."""

    code = "queue_not_found"


class QueueBusy(Retryable):
    """Other processes changed the queue each time this change was tried. Try again."""

    code = "queue_busy"
