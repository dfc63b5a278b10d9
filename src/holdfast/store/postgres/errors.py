"""Errors of Postgres in Holdfast's words: what is wrong, and what to do."""

from __future__ import annotations

from typing import Final

import psycopg

from holdfast.model.errors import DiskFailed, DiskFull, HoldfastError, StoreBroken, StoreBusy
from holdfast.store.isolation import concerns_all

_BUSY: Final = frozenset({"55P03", "40P01", "40001", "25P03", "25P04"})
"""A lock was not free in time, two transactions conflicted or waited for each other, or a transaction took too long or was idle for too
long."""
_FULL: Final = "53100"
_DOWN: Final = ("08", "53", "57P", "58", "25006")
"""The connection is lost, the server lacks resources, stops or starts, its disk fails, or it is a standby that accepts no writes."""

_OF_A_ROW: Final = ("22", "23", "42804", "42883", "54", "XX001", "XX002")
"""A value has the wrong type, breaks a constraint, or is too large; or the row or its index is damaged."""


def explained(error: psycopg.Error, shown: str) -> HoldfastError:
    """The error of Holdfast for an error of Postgres. `shown` is the address of the store, for the message. A lost connection becomes
    DiskFailed, like a failing disk: the engine waits until the database can be reached again."""
    state = error.sqlstate or ""
    said = " ".join(str(error).split())
    if state in _BUSY:
        return StoreBusy(f"{shown} is busy, for example because another process has locked rows: {said}. Try again.")
    if state == _FULL:
        return DiskFull(f"The disk under {shown} is full: {said}. Make room on the database's machine; then Holdfast continues by itself.")
    if state.startswith(_DOWN) or (not state and isinstance(error, psycopg.OperationalError)):
        return DiskFailed(f"{shown} cannot be reached, or accepts no writes: {said}. Holdfast continues by itself when it does.")
    return StoreBroken(f"{shown} could not be read or written: {said}")


def is_shared(error: Exception) -> bool:
    """Whether an error concerns all entries of a batch. Errors of the server and its connection do. Errors of a value or a row do not, nor
    does any error that is neither Postgres's nor Holdfast's."""
    if isinstance(error, HoldfastError):
        return concerns_all(error)
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:  # the driver's own error: it could not encode a value
        return not isinstance(error, psycopg.DataError | psycopg.ProgrammingError | psycopg.NotSupportedError)
    return not error.sqlstate.startswith(_OF_A_ROW)


def is_moved(error: psycopg.Error) -> bool:
    """Whether the batch must be decided again because another process wrote first: that process took a name, or its transaction and this
    one conflicted."""
    return isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure)
