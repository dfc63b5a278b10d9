"""Entries: what the writer has to write, and the code or the caller that waits for the answer.

Most entries are one write, and share a transaction with other writes that wait at the same time. A lot has a transaction of its own: an
admission, for which the store chooses the executions (`QueueStore.admit`), or many starts at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Claimant
from holdfast.model.verbs import Admit, Answer, Checkpoint, Start, Write
from holdfast.store.seam import Committed, Target


class Admission(NamedTuple):
    """A lot that admits queued executions of these functions, at most one for each claimant."""

    targets: Sequence[Target]
    by: Sequence[Claimant]

    def writes(self, done: Committed) -> Sequence[Write]:
        """The writes that the store made, one for each answer."""
        taken = zip(done.answers, self.by, strict=False)
        return [Admit(getattr(header, "id", ""), by) for header, by in taken]


class Bulk(NamedTuple):
    """A lot that makes many executions: in one transaction, or in several if one of the starts makes the transaction fail."""

    starts: Sequence[Start]


Lot = Admission | Bulk


class LotAnswer(NamedTuple):
    """The answer to a lot. For a Bulk: an answer or an error for each start, in the order of the starts. For an Admission: the headers of
    the executions that the store admitted."""

    answers: Sequence[Answer | HoldfastError]
    opens_at: int | None = None
    """For an admission: the earliest time at which a lane opens again that the admission closed for a time. None if it closed no lane."""


EntryAnswer = Answer | LotAnswer | HoldfastError
Deliver = Callable[[Answer | HoldfastError], None]
DeliverLot = Callable[[LotAnswer | HoldfastError], None]


class Entry(NamedTuple):
    """A write or a lot; the function that is called with its answer; and the thread or the future that waits for the answer. Each of the
    last three is None if there is none."""

    write: Write | Lot
    deliver: Callable[[Any], None] | None
    thread: Waiter | None = None
    future: asyncio.Future[Any] | None = None


class Waiter:
    """A thread that waits for the answer to its write, or for its turn to commit (writer.py)."""

    __slots__ = ("_lock", "answer")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.answer: EntryAnswer | None = None

    def deliver(self, answer: EntryAnswer) -> None:
        self.answer = answer
        self.wake()

    def wake(self) -> None:
        """Wake the thread: it has its answer, or it may take the turn."""
        with contextlib.suppress(RuntimeError):  # woken twice
            self._lock.release()

    def wait(self) -> None:
        """Block the calling thread until `wake` is called. Does not block if `wake` was called since the last wait."""
        self._lock.acquire()


def payload_bytes(write: object) -> int:
    """About how many bytes the payloads of a checkpoint have. 0 for any other write. Also 0 for payloads that cannot be measured; the store
    will refuse that checkpoint."""
    if not isinstance(write, Checkpoint):
        return 0
    try:
        return sum([len(update.payload) for update in write.updates if update.payload is not None])
    except Exception:
        return 0
