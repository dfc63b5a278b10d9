"""Errors of Postgres in our words: what is wrong, and what to do."""

from __future__ import annotations

from typing import Final

import psycopg

from holdfast.model.errors import DiskFailed, DiskFull, HoldfastError, StoreBroken, StoreBusy
from holdfast.store.isolating import concerns_all

_BUSY: Final = frozenset({"55P03", "40P01", "40001", "25P03", "25P04"})
"""A lock was not to be had, two waited for each other, or a transaction stood still for too long."""
_FULL: Final = "53100"
_DOWN: Final = ("08", "53", "57P", "58", "25006")
"""The connection, the resources of the server, its stop or start, its disk; or it takes no writes now, as a standby."""

_OF_A_ROW: Final = ("22", "23", "42804", "42883", "54", "XX001", "XX002")
"""A value is none of its type, breaks a rule, or is too large; or the row or the index that was asked for is damaged."""


def explained(error: psycopg.Error, shown: str) -> HoldfastError:
    """A connection that is lost is like a disk that fails: whoever works here waits until it is back."""
    state = error.sqlstate or ""
    said = " ".join(str(error).split())
    if state in _BUSY:
        return StoreBusy(f"{shown} is locked by somebody else: {said}")
    if state == _FULL:
        return DiskFull(f"The disk under {shown} is full: {said}. Make room on the database's machine; work goes on by itself.")
    if state.startswith(_DOWN) or (not state and isinstance(error, psycopg.OperationalError)):
        return DiskFailed(f"{shown} cannot be reached, or does not take writes: {said}. Work goes on by itself when it does.")
    return StoreBroken(f"{shown} could not be read or written: {said}")


def is_shared(error: Exception) -> bool:
    """Whether an error concerns all entries of a batch: the server and its connection do, a value or a row does not."""
    if isinstance(error, HoldfastError):
        return concerns_all(error)
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:  # the driver's own: it could not write a value down
        return not isinstance(error, psycopg.DataError | psycopg.ProgrammingError | psycopg.NotSupportedError)
    return not error.sqlstate.startswith(_OF_A_ROW)


def is_moved(error: psycopg.Error) -> bool:
    """Somebody else was quicker; what was decided may be decided again. A name that was free has been taken, or two batches crossed."""
    return isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure)
