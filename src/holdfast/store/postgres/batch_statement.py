"""The one statement that writes a batch: all of its rows, if no other process has changed the executions that the batch changes; else no
row.

The statement is a transaction of its own, so a batch whose executions are in memory costs one round trip. It is put together from the
parts that a batch needs. Rows come as arrays, so there are few different statements, and the server plans each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.model.rates import MAX_SPAN_NS, NS_PER_MS
from holdfast.store import rows
from holdfast.store.postgres.columns import arguments, numbers
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session, Statement

_PARTS = ("changes", "executions", "touches", "operations", "events", "lanes", "rates", "cooled", "signals")


class StatementResult(NamedTuple):
    """The result of the statement: whether all executions had the expected revisions (if not, nothing was written), and whether signals
    were written."""

    agreed: bool
    signalled: bool


class BatchStatement(PostgresReads):
    """The part of a store that writes batches."""

    _writer: Session
    _statements: dict[tuple[str, ...], Statement]
    """The statements that were made so far, by the names of their parts."""
    _channel: str
    _member: str

    def _write(
        self,
        put: Mapping[str, Sequence[rows.Row]],
        decided_on: Mapping[int, int],
        *,
        news: bool,
        unheard: bool = False,
        clock: int | None = None,
        now: int = 0,
    ) -> StatementResult:
        """Write the rows of `put`, if every execution still has the revision in `decided_on`, which has revisions by the key of the
        execution. Otherwise write nothing. `unheard`: the signals for subscribers were left out, so write nothing if there is a subscriber.
        If `news` is True, or signals are written, the other processes are notified. `clock` is the new clock of the root lane, by which
        queues take turns; None if it has not changed. `now` is the time of the batch; only rates need it."""
        values: dict[str, object] = {"news": news, "channel": self._channel, "member": self._member}
        if decided_on:
            keys = sorted(decided_on)
            values |= {"keys": numbers(keys), "revisions": numbers(decided_on[key] for key in keys)}
        for part in _PARTS:
            if put.get(part):
                values |= arguments(part, put[part])
        if put.get("signals"):
            values["signals"] = len(put["signals"])
        if put.get("rates"):
            values |= {"now_ns": now * NS_PER_MS, "most_ns": MAX_SPAN_NS}
        if clock is not None:
            values["clock"] = clock
        parts = _parts(put, decides=bool(decided_on), unheard=unheard, moves_clock=clock is not None)
        ((agreed, signalled, _),) = self._writer.run(self._statement(parts), values)
        return StatementResult(agreed, signalled)

    def _statement(self, parts: tuple[str, ...]) -> Statement:
        made = self._statements.get(parts)
        if made is None:
            tables = ",\n".join(self._texts[f"write_{part}"] for part in parts)
            made = self._statements[parts] = Statement(f"{self._texts['write_start']} {tables}\n{self._texts['write_end']}")
        return made


def _parts(put: Mapping[str, Sequence[rows.Row]], *, decides: bool, unheard: bool, moves_clock: bool) -> tuple[str, ...]:
    """The names of the parts from which the statement is put together. If a needed part refers to a part that the batch does not need, an
    empty part takes the place of the latter."""
    signals, lanes, born = bool(put.get("signals")), bool(put.get("lanes")), bool(put.get("executions"))
    return (
        ("agreed" if decides else "unopposed") + ("_unheard" if unheard else ""),
        *(["no_changes"] if (born or lanes or signals) and not put.get("changes") else []),
        *(["no_executions"] if (lanes or signals) and not born else []),
        *(["no_lanes"] if signals and not lanes else []),
        *(part for part in _PARTS if put.get(part)),
        *(["root"] if moves_clock else []),
        *([] if signals else ["no_signals"]),
    )
