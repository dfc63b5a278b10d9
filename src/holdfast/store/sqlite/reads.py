"""What a store can be asked outside a transaction; the answers are as of the last commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from holdfast.model import codec
from holdfast.model.charging import Counter
from holdfast.model.clock import Clock
from holdfast.model.errors import StoreBroken
from holdfast.model.execution import Execution, Terms
from holdfast.model.ids import Seal
from holdfast.model.operations import Kind, Operation
from holdfast.model.payloads import PayloadCodec
from holdfast.store import rows
from holdfast.store.pages import readable_page
from holdfast.store.seam import Filter, Hosted, Line, Target
from holdfast.store.sqlite import listing
from holdfast.store.sqlite.connecting import explained


class Reading:
    """The reading half of a store."""

    _where: str
    _sql: Mapping[str, str]
    _reader: sqlite3.Connection
    _read_lock: threading.RLock
    _codec: PayloadCodec | None
    seal: Seal

    def _read(self, name: str, parameters: Sequence[object] | dict[str, object]) -> list[rows.Row]:
        return self._ask(self._sql[name], parameters)

    def _ask(self, question: str, parameters: Sequence[object] | dict[str, object]) -> list[rows.Row]:
        try:
            with self._read_lock:
                return self._reader.execute(question, parameters).fetchall()
        except UnicodeEncodeError:  # what cannot be written down is nowhere
            return []
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    def clock(self, machine: Clock) -> Clock:
        """All who share a file share a machine."""
        return machine

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """Ready executions of these functions, and what dead runners left."""
        asked: dict[str, object] = {"targets": _keys(targets), "dead": codec.dumps(sorted(dead)), "now": now, "limit": limit}
        return [row[0] for row in self._read("claimable", asked)]

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        """A ready execution that must be claimed alone."""
        found = self._read("suspect", (now, _keys(targets)))
        return found[0][0] if found else None

    def due(self, now: int, limit: int) -> Sequence[str]:
        """Executions that may have a timer due."""
        return [row[0] for row in self._read("due", (now, limit))]

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """The next time anything happens by itself."""
        ((at,),) = self._read("next_due", (_keys(targets),))
        return None if at is None else int(at)

    def find(self, execution: str) -> Execution | None:
        """An execution by id."""
        found = self._read("header", (execution,))
        return rows.execution_from(found[0]) if found else None

    def find_named(self, function: str, name: str) -> Execution | None:
        """An execution by function and name."""
        found = self._read("named", (function, name))
        return rows.execution_from(found[0]) if found else None

    def input(self, execution: str) -> str | None:
        """The payload it was started with."""
        return self._payload(execution, 1)

    def result(self, execution: Execution) -> str | None:
        """The payload it ended with."""
        return None if execution.result_event is None else self._payload(execution.id, execution.result_event)

    def _payload(self, execution: str, number: int) -> str | None:
        found = self._read("payload", (execution, number))
        return rows.payload_from(found[0][0], execution, number, self._codec) if found else None

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        """Its operations in the order they began."""
        found = self._read("operations", (execution, newer_than, after, -1 if limit is None else limit))
        return self._operations(found, execution)

    def contexts(self, execution: str) -> Sequence[Operation]:
        """Its contexts in the order they began, without what they came to."""
        return self._operations(self._read("contexts", (execution,)), execution)

    def _operations(self, found: Sequence[rows.Row], execution: str) -> list[Operation]:
        return [rows.operation_from(row, execution, self.seal, self._codec) for row in found]

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[Line]:
        """Its events in order, each with its operation."""
        found = self._read("history", (execution, after, limit))
        places = codec.dumps(sorted({row[3] for row in found if row[3] is not None}))
        operations = {op.place: op for op in self._operations(self._read("operations_at", (execution, places)), execution)}
        return [Line(*rows.event_from(row, operations, execution, self._codec)) for row in found]

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        """Those of these that there are."""
        return [Counter(*row) for key in sorted(keys) for row in self._read("counter", (key,))]

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """The executions that wait for a decision."""
        return [row[0] for row in self._read("undecided", (beyond, tenant, limit))]

    def list(self, wanted: Filter) -> Sequence[Execution]:
        """Executions by filter, one page."""
        return readable_page(wanted, self._page)

    def _page(self, wanted: Filter) -> Sequence[rows.Row]:
        question, asked = listing.question(self._sql, wanted)
        try:
            return self._ask(question, asked)
        except StoreBroken:
            # A text that is none fails the whole question. It is asked again, and such a text comes as its bytes.
            with self._read_lock:
                self._reader.text_factory = _text_or_bytes
                try:
                    return self._ask(question, asked)
                finally:
                    self._reader.text_factory = str

    @cached_property
    def unmarked(self) -> str:
        """The last execution from before runs were marked; it never changes."""
        ((found,),) = self._read("unmarked", ())
        return str(found)

    def hosted(self, function: str) -> Sequence[Hosted]:
        """The versions of a function that some runner has hosted."""
        return [Hosted(function, row[0], Terms(*row[1:5]), Kind(row[5])) for row in self._read("hosted", (function,))]


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _keys(targets: Sequence[Target]) -> str:
    return codec.dumps([f"{target.function}:{target.version}" for target in targets])
