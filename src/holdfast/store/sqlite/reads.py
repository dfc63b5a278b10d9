"""Reads outside a transaction. They have a connection of their own, so that no read waits for a batch. (A store in memory has only one
connection, so there a read waits.)"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from holdfast.model import codec
from holdfast.model.charges import Counter
from holdfast.model.clock import Clock
from holdfast.model.errors import StoreBroken
from holdfast.store import rows
from holdfast.store.list_query import Dialect
from holdfast.store.reads import Parameters, Reads, only_of
from holdfast.store.seam import Filter, Target
from holdfast.store.sqlite.errors import explained

DIALECT: Final = Dialect(":{}", codec.dumps, ordered_parts=False)


class SqliteReads(Reads):
    """The reading half of a store."""

    _where: str
    _sql: Mapping[str, str]
    _reader: sqlite3.Connection
    _read_lock: threading.RLock

    def _read(self, name: str, parameters: Parameters = ()) -> list[rows.Row]:
        return self._ask(self._sql[name], parameters)

    def _ask(self, question: str, parameters: Parameters) -> list[rows.Row]:
        try:
            with self._read_lock:
                return self._reader.execute(question, parameters).fetchall()
        except UnicodeEncodeError:  # the text to search for cannot be encoded, so no row has it
            return []
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    def _text(self, asked: str) -> str:
        return asked

    def _array(self, values: Sequence[object]) -> object:
        return codec.dumps(values)

    def clock(self, machine: Clock) -> Clock:
        """The machine's own clock, because all processes that share a file run on one machine."""
        return machine

    def _event_rows(self, execution: str, after: int, limit: int) -> Sequence[rows.Row]:
        return self._read("history", (execution, after, limit))

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        only = only_of(targets)
        question, taken = ("ready", {}) if only is None else ("ready_only", self._taken(only))
        found = []
        for target in targets:
            found += self._read(question, {"function": target.function, "version": target.version, "now": now, "limit": limit, **taken})
        if dead:
            left = {"targets": self._target_keys(targets), "dead": self._array(sorted(dead)), "limit": limit}
            found += self._read("abandoned", left | self._taken(only))
        return [row[0] for row in sorted(found, key=lambda row: row[1])[:limit]]

    def next_due(self, targets: Sequence[Target]) -> int | None:
        found, only = self._read("next_due"), only_of(targets)
        for target in targets:
            asked = {"function": target.function, "version": target.version}
            found += self._read("next_ready", asked) if only is None else self._read("next_ready_only", asked | self._taken(only))
        return min((row[0] for row in found if row[0] is not None), default=None)

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        return [Counter(*row) for key in sorted(keys) for row in self._read("counter", (key,))]

    def _page(self, wanted: Filter) -> Sequence[rows.Row]:
        question, asked = self._lists.of(wanted)
        try:
            return self._ask(question, asked)
        except StoreBroken:
            # A damaged text fails the whole query. The query runs again, and the damaged text is read as bytes.
            with self._read_lock:
                self._reader.text_factory = text_or_bytes
                try:
                    return self._ask(question, asked)
                finally:
                    self._reader.text_factory = str


def text_or_bytes(raw: bytes) -> str | bytes:
    """The text of a value in the file; its bytes if they are not valid UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
