"""The reads for people that have a deadline. They use a separate connection and read-only transactions, so that no batch and no runner
waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg

from holdfast.model.browse_errors import ReadTooLong
from holdfast.model.clock import monotonic
from holdfast.store.browse_reads import BrowseReads
from holdfast.store.browse_walk import Ask
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.errors import explained
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import ONE_MOMENT, Session
from holdfast.store.rows import Row


class PostgresBrowseReads(PostgresReads, BrowseReads):
    """The part of a store with the reads for people."""

    _address: Address
    _looker: Session | None
    """The connection for the reads that have a deadline; None before the first such read."""
    _look_lock: threading.RLock

    @contextmanager
    def _search_connection(self, seconds: float) -> Iterator[Ask]:
        until = monotonic() + seconds
        if not self._look_lock.acquire(timeout=max(seconds, 0)):
            raise ReadTooLong
        try:
            if self._looker is None:
                self._looker = Session(self._address, self._texts["session"].encode())
            looker = self._looker
            with looker.transaction(begin=ONE_MOMENT):
                yield lambda question, asked: self._looked(looker, question, asked, until)
        except psycopg.errors.QueryCanceled as error:
            raise ReadTooLong from error
        except psycopg.Error as error:
            raise explained(error, self._shown) from error
        finally:
            self._look_lock.release()

    def _looked(self, looker: Session, question: str, asked: Mapping[str, object], until: float) -> list[Row]:
        left = until - monotonic()
        if left <= 0:
            raise ReadTooLong
        looker.run(self._sql["read_until"], (str(max(int(left * 1000), 1)),))
        return looker.run(question.encode(), asked, prepare=False)

    def _close_looker(self) -> None:
        if self._looker is not None:
            self._looker.close()
