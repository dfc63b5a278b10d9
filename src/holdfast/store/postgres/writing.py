"""The one statement that writes: all rows of a batch if nothing it was decided on has moved, else none of them.

It is its own transaction, so a batch whose executions are in memory costs one round trip. It is put together from the parts a batch
needs; rows come as arrays, so there are few different statements, and the server plans each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.store import rows
from holdfast.store.postgres.columns import arguments, numbers
from holdfast.store.postgres.reads import Reading
from holdfast.store.postgres.session import Session

_PARTS = ("executions", "touches", "operations", "events", "signals")


class Written(NamedTuple):
    """What became of it."""

    agreed: bool
    signalled: bool


class Writing(Reading):
    """The part of a store that writes batches."""

    _writer: Session
    _statements: dict[tuple[str, ...], bytes]
    _channel: str
    _member: str

    def _write(self, put: Mapping[str, Sequence[rows.Row]], decided_on: Mapping[int, int], *, news: bool) -> Written:
        """Put rows into tables, if the executions of these keys still have these revisions; `news` lets the other processes know."""
        parts = ("agreed" if decided_on else "unopposed", *(part for part in _PARTS if put.get(part)))
        if parts[-1] != "signals":
            parts += ("no_signals",)
        values: dict[str, object] = {"news": news, "channel": self._channel, "member": self._member}
        if decided_on:
            keys = sorted(decided_on)
            values |= {"keys": numbers(keys), "revisions": numbers(decided_on[key] for key in keys)}
        for part in _PARTS:
            if put.get(part):
                values |= arguments(part, put[part])
        if parts[-1] == "signals":
            values["signals"] = len(put["signals"])
        ((agreed, signalled, _),) = self._writer.run(self._statement(parts), values)
        return Written(agreed, signalled)

    def _statement(self, parts: tuple[str, ...]) -> bytes:
        made = self._statements.get(parts)
        if made is None:
            tables = ",\n".join(self._texts[f"write_{part}"] for part in parts)
            made = self._statements[parts] = f"{self._texts['write_start']} {tables}\n{self._texts['write_end']}".encode()
        return made
