"""An entry that fails does not fail its batch: a store finds the entry that makes the batch fail, and writes the other entries without it.

If one entry may have caused the error of a batch, the batch is rolled back and committed again in two halves, and so on, until a part with
one entry fails. Each part is a batch of its own, so the follow-up writes of an entry stay in one transaction with it, and entries keep
their order.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.model.errors import (
    CodecFailed,
    DiskFailed,
    HoldfastError,
    Rejected,
    RowDamaged,
    StoreBroken,
    StoreBusy,
    StoreUnsuitable,
    WriteFailed,
)
from holdfast.model.execution import Change, Execution
from holdfast.model.verbs import Answer, Write
from holdfast.store.seam import Committed

log = logging.getLogger("holdfast.store")

Commit = Callable[[Sequence[Write]], Committed]
Judge = Callable[[Exception], HoldfastError | None]
"""Called with the error of a batch. If the error concerns all entries (the disk fails, the store is closed), returns the error that their
callers get. Returns None if one entry may have caused it."""
Refuse = Callable[[Write, Exception], HoldfastError]
"""Called with an entry that alone failed, and with its error. Returns the error that the entry gets as its answer."""

_OWN: Final = (Rejected, RowDamaged, CodecFailed, WriteFailed)
"""Holdfast's errors that tell the caller of one entry what is wrong with that entry."""
_TELLING: Final = frozenset({TypeError, AttributeError, OverflowError, RecursionError, MemoryError})
"""Python's errors whose messages name types and never values. The message of any other error may hold a payload."""
_FRAMES: Final = 20
_SHOWN: Final = 64


class Spoilt(Exception):
    """Wraps an error (`__cause__`) that was raised because of a value of one entry, while the entry was decided or made into rows. The
    error is not about the store, so it does not concern the whole batch."""


def concerns_all(error: HoldfastError) -> bool:
    """Whether an error of Holdfast is about the store itself, so that it concerns all entries. One entry may have caused any other
    error."""
    return isinstance(error, StoreBusy | DiskFailed | StoreUnsuitable) or type(error) is StoreBroken


def _of_all(error: Exception) -> HoldfastError | None:
    return error if isinstance(error, HoldfastError) else None


def own(error: HoldfastError) -> HoldfastError:
    """Returns the error: it is the answer of the entry whose decision raised it. If its type is one for errors about the store itself,
    raises Spoilt instead, so that the error concerns only this entry: a decision cannot know the state of the store."""
    if concerns_all(error):
        raise Spoilt from error
    return error


def refused(write: Write, error: Exception) -> HoldfastError:
    """The answer for an entry that could not be decided or stored.

    Holdfast's own errors about one entry are returned as they are. Any other error is a bug: it is logged with its traceback, and the
    answer is a WriteFailed. The message of the error is neither in the log nor in the answer, unless messages of its type never contain
    values. The answer does not keep the error itself, whose frames hold payloads.
    """
    if isinstance(error, Spoilt) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, _OWN):
        return error
    what, why = _entry(write), _reason(error)
    place = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
    log.error("a write failed unexpectedly and is refused; those beside it are not touched: %s: %s\n%s", what, why, place)
    return WriteFailed(f"{what} could not be decided or stored ({why}). Nothing of it is on disk; the log shows where it failed.")


def committed_apart(
    batch: Sequence[Write], error: Exception, commit: Commit, judge: Judge = _of_all, refuse: Refuse = refused
) -> Committed:
    """Commit a batch that failed with `error`, in parts. An entry that makes its part fail gets an error as its answer, and the other
    entries are written. An error that concerns all entries is raised if no entry has an answer yet. If the first entries have their answers
    already, that error becomes the answer of all entries after them, and these are not on disk. Unless `judge` says otherwise, every error
    of Holdfast concerns all entries."""
    answers: list[Answer | HoldfastError] = []
    _raise_if_shared(error, judge)
    todo = _halves(batch, error, answers, refuse)
    followed: list[Execution] = []
    changes: list[Change] = []
    signalled = False
    while todo:
        part = todo.pop()
        try:
            done = commit(part)
        except Exception as error:
            shared = judge(error)
            if shared is None:
                todo += _halves(part, error, answers, refuse)
                continue
            if not answers:
                _raise_if_shared(error, judge)
            answers += [shared] * (len(batch) - len(answers))  # no later part is tried: entries keep their order
            break
        answers += done.answers
        if done.answers and isinstance(done.answers[-1], DiskFailed):  # the store stopped at a failing disk
            answers += [done.answers[-1]] * (len(batch) - len(answers))
            todo.clear()
        followed += done.followed
        changes += done.changes
        signalled |= done.signalled
    return Committed(answers, followed, signalled, changes)


def _halves(part: Sequence[Write], error: Exception, answers: list[Answer | HoldfastError], refuse: Refuse) -> list[Sequence[Write]]:
    """The two halves of a part that failed, the first half last, because the caller takes the last part first. If the part has one entry,
    that entry gets its answer, and nothing is returned."""
    if len(part) > 1:
        return [part[len(part) // 2 :], part[: len(part) // 2]]
    answers += [refuse(write, error) for write in part]
    return []


def _raise_if_shared(error: Exception, judge: Judge) -> None:
    shared = judge(error)
    if shared is error:
        raise error
    if shared is not None:
        raise shared from error


def _entry(write: Write) -> str:
    try:
        execution: object = write.execution
    except Exception:
        execution = None
    known = type(execution) is str and len(execution) <= _SHOWN and execution.isascii() and execution.isprintable()
    return f"{type(write).__name__} of execution {execution if known else '(unreadable)'}"


def _reason(error: Exception) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        detail = str(error)[:200] if kind in _TELLING else getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    except Exception:  # an exception class of an author may run the author's code when it is inspected
        detail = None
    return f"{name}: {detail}" if type(detail) is str and detail else name
