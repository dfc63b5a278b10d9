"""One connection to the database. If it was lost, another one is opened in its place.

Statements outside a transaction may run twice without much harm (a read, the renewal of a lease, a runner that leaves). So if the
connection is lost, such a statement runs once more on a new connection. A batch does not run again: doubts.py finds out whether it was
written.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg

from holdfast.model.errors import StoreBroken
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.errors import explained
from holdfast.store.rows import Row

StatementParameters = Sequence[object] | Mapping[str, object] | None
ONE_MOMENT: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction in which all statements see the database as it is at one moment."""
_NAMED: Final = re.compile(r"%\((\w+)\)s|%s")


class Statement:
    """A statement whose parameters have become $1, $2 and so on. With parameters by name, the driver would search the long text for the
    names at each run."""

    __slots__ = ("_names", "text")

    def __init__(self, text: str) -> None:
        names = [name or str(place) for place, name in enumerate(_NAMED.findall(text))]
        self._names = list(dict.fromkeys(names))
        numbers = iter(names)
        self.text = _NAMED.sub(lambda _: f"${self._names.index(next(numbers)) + 1}", text).encode()

    def arguments(self, parameters: StatementParameters) -> Sequence[object] | None:
        """The parameters in the order of their numbers. Only parameters by name are put into that order; others are returned as they
        are."""
        return [parameters[name] for name in self._names] if isinstance(parameters, Mapping) else parameters


def _has_rows(cursor: psycopg.Cursor[Any]) -> bool:
    """Whether the last statement is one that returns rows, even if it returned none. `description` would say so, too, but describes every
    column first."""
    result = cursor.pgresult
    return result is not None and result.status == psycopg.pq.ExecStatus.TUPLES_OK


class Session:
    """A connection and its lock: one thread at a time uses it."""

    def __init__(self, address: Address, settings: bytes, greet: Callable[[psycopg.Connection], None] | None = None) -> None:
        self.lock = threading.RLock()
        self._address = address
        self._settings = settings
        self._greet = greet
        self._closed = False
        self._in_transaction = False
        try:
            self._open()
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            raise StoreBroken(f"{address.shown} could not be opened: {said}. Check the address, and that the server runs.") from error

    def _open(self) -> None:
        if self._closed:
            raise StoreBroken(f"The store at {self._address.shown} is closed.")
        connection = psycopg.connect(**self._address.parameters, autocommit=True)  # type: ignore[arg-type]  # libpq reads texts
        try:
            connection.execute(self._settings)
            if self._greet is not None:
                self._greet(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        self._cursor = connection.cursor()
        self._numbered = psycopg.RawCursor(connection)
        self._last: psycopg.Cursor[Any] = self._cursor

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone. Then it is unknown whether the last statement was executed."""
        return self.connection.closed

    def reopen(self) -> None:
        """Open a new connection if this one is lost. Raises psycopg's error if that fails, and StoreBroken if the session was closed."""
        if self.is_lost:
            self._open()

    def run(self, statement: bytes | Statement, parameters: StatementParameters = None, *, prepare: bool = True) -> list[Row]:
        """Run SQL once, and return its rows. If it fails, the caller gets psycopg's error."""
        if isinstance(statement, Statement):
            self._last = self._numbered.execute(statement.text, statement.arguments(parameters), prepare=prepare)
        else:
            self._last = self._cursor.execute(statement, parameters, prepare=prepare)
        return self._last.fetchall() if _has_rows(self._last) else []

    def ask(self, statement: bytes | Statement, parameters: StatementParameters = None, *, prepare: bool = True) -> list[Row]:
        """Run one statement, and return its rows. If the connection is lost outside a transaction, another is opened and the statement runs
        again. So use this only for a statement that may run twice without harm. If it fails, the caller gets Holdfast's error."""
        with self.lock:
            try:
                try:
                    return self.run(statement, parameters, prepare=prepare)
                except psycopg.Error:
                    if self._in_transaction or not self.is_lost:
                        raise
                self._open()
                return self.run(statement, parameters, prepare=prepare)
            except psycopg.Error as error:
                raise explained(error, self._address.shown) from error

    def change(self, statement: bytes | Statement, parameters: StatementParameters = None) -> int:
        """Run one statement that changes rows, and return how many rows it changed. If the connection is lost outside a transaction, the
        statement runs again on a new connection. So use this only for a statement that may run twice without harm."""
        with self.lock:
            self.ask(statement, parameters)
            return self._last.rowcount

    @contextmanager
    def transaction(self, *, begin: bytes = b"BEGIN") -> Iterator[None]:
        """A transaction around the `with` block: everything in it is committed at the end, or nothing of it if an error is raised. `begin`
        is the statement that begins the transaction. Errors of the database are raised as psycopg's. If the connection is lost during the
        commit, it is not known whether everything or nothing was committed."""
        with self.lock:
            try:
                self.run(begin, prepare=False)
            except psycopg.Error:
                if not self.is_lost:
                    raise
                self._open()
                self.run(begin, prepare=False)
            self._in_transaction = True
            try:
                yield
                self.run(b"COMMIT", prepare=False)
            except BaseException:
                with suppress(psycopg.Error):
                    if not self.is_lost:
                        self.run(b"ROLLBACK", prepare=False)
                raise
            finally:
                self._in_transaction = False

    @contextmanager
    def explained_transaction(self, *, begin: bytes = b"BEGIN") -> Iterator[None]:
        """A transaction around the `with` block, all or nothing, like `transaction`; but errors of the database are raised as
        Holdfast's."""
        try:
            with self.transaction(begin=begin):
                yield
        except psycopg.Error as error:
            raise explained(error, self._address.shown) from error

    def close(self) -> None:
        """Close the connection. It is not opened again."""
        with self.lock:
            self._closed = True
            self.connection.close()
