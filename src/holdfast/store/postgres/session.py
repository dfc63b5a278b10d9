"""One connection to the database, opened again when it was lost.

Everything but a batch may be said twice (a question, a lease renewed, somebody who leaves), so a statement outside a transaction that
meets a lost connection is said once more on a new one. A batch is not: store.py looks what became of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import psycopg

from holdfast.model.errors import StoreBroken
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.trouble import explained
from holdfast.store.rows import Row

Parameters = Sequence[object] | Mapping[str, object] | None


class Session:
    """A connection and its lock: one thread at a time says something on it."""

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
            raise StoreBroken(f"{address.shown} could not be opened: {said}") from error

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

    @property
    def is_lost(self) -> bool:
        """The connection is gone, and everything said on it since the last answer is in doubt."""
        return self.connection.closed

    def reopen(self) -> None:
        """A new connection in place of a lost one; the error is psycopg's."""
        if self.is_lost:
            self._open()

    def run(self, statement: bytes, parameters: Parameters = None, *, prepare: bool = True) -> list[Row]:
        """One statement, said once; the error is psycopg's."""
        cursor = self._cursor
        cursor.execute(statement, parameters, prepare=prepare)
        return cursor.fetchall() if cursor.description is not None else []

    def ask(self, statement: bytes, parameters: Parameters = None, *, prepare: bool = True) -> list[Row]:
        """One statement that may be said twice."""
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

    def change(self, statement: bytes, parameters: Parameters = None) -> int:
        """The same for a statement that changes rows; says how many."""
        with self.lock:
            self.ask(statement, parameters)
            return self._cursor.rowcount

    @contextmanager
    def transaction(self, *, begin: bytes = b"BEGIN") -> Iterator[None]:
        """Everything inside is written, or nothing of it; the error is psycopg's."""
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
        """The same, and the error is ours."""
        try:
            with self.transaction(begin=begin):
                yield
        except psycopg.Error as error:
            raise explained(error, self._address.shown) from error

    def close(self) -> None:
        """Close it for good."""
        with self.lock:
            self._closed = True
            self.connection.close()
