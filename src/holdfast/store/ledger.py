"""The ledger and its daily sums: how entries become rows, and how the ledger is read. Both backends share this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from holdfast.model.execution import Change, ExecutionStatus
from holdfast.model.ledger import CostFilter, CostSample, CostSum, Dimension, EntryState, LedgerEntry, lost
from holdfast.model.verbs import Checkpoint, Write
from holdfast.store.reads import Reads
from holdfast.store.rows import Row

_DIMENSIONS: Final = tuple(Dimension)
_MOST_SAMPLES: Final = 10_000
"""`cost_samples` and `cost_samples_of_worker` read at most this many calls of models and other paid tools, the newest ones."""
_NEVER: Final = 2**40
_WHO: Final = ("tenant", "pipeline", "node", "worker", "run", "root", "path", "owner", "call", "model")
_AMOUNTS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "nanos", "held_tokens", "held_nanos")
"""The members of an entry whose columns follow each other, in the order of the columns."""
_who, _amounts = attrgetter(*_WHO), attrgetter(*_AMOUNTS)
CUT_OFF: Final = frozenset({ExecutionStatus.STOPPED, ExecutionStatus.TIMED_OUT, ExecutionStatus.FAILED})
"""If an execution ends with one of these statuses, it cannot write how its open calls ended. SUCCEEDED is not here, because a run that
succeeds has ended its calls itself."""


class LedgerReads(Reads):
    """The part of a store that reads the ledger."""

    def cost(self, wanted: CostFilter) -> Sequence[CostSum]:
        asked: dict[str, object] = {f"by_{name.value}": name in wanted.by for name in _DIMENSIONS}
        asked |= {"tenant": self._asked(wanted.tenant), "limit": wanted.limit}
        if wanted.run is not None:
            asked |= {"run": self._text(wanted.run), "root": self._text(wanted.root or wanted.run)}
            found = self._read("cost_of_run", asked)
        else:
            del asked["by_run"]
            since, until = wanted.since_day, wanted.until_day
            asked |= {"since": 0 if since is None else since, "until": _NEVER if until is None else until}
            found = self._read("cost_of_days", asked | {"pipeline": self._asked(wanted.pipeline), "worker": self._asked(wanted.worker)})
        places = [_DIMENSIONS.index(name) for name in wanted.by]
        return [_sum_from(row, places) for row in found]

    def ledger(self, run: str, limit: int = 10_000) -> Sequence[LedgerEntry]:
        return [_entry_from(row) for row in self._read("ledger", {"run": self._text(run), "limit": limit})]

    def ledger_root(self, run: str) -> str | None:
        found = self._read("ledger_root", {"run": self._text(run)})
        return str(found[0][0]) if found else None

    def cost_samples(self, pipeline: str, tenant: str | None = None) -> Sequence[CostSample]:
        asked = {"pipeline": self._text(pipeline), "tenant": self._asked(tenant), "limit": _MOST_SAMPLES}
        return [CostSample(*row) for row in self._read("cost_samples", asked)]

    def cost_samples_of_worker(self, worker: str, tenant: str | None = None) -> Sequence[CostSample]:
        asked = {"worker": self._text(worker), "tenant": self._asked(tenant), "limit": _MOST_SAMPLES}
        return [CostSample(*row) for row in self._read("cost_samples_of_worker", asked)]

    def _asked(self, text: str | None) -> str | None:
        return None if text is None else self._text(text)


def has_ledger(batch: Iterable[Write]) -> bool:
    """Whether a checkpoint of a batch brings entries of the ledger."""
    return any(isinstance(write, Checkpoint) and write.ledger for write in batch)


def entries_of(changes: Iterable[Change]) -> list[LedgerEntry]:
    """The entries of the ledger that the changes of a batch bring."""
    return [entry for change in changes for entry in change.ledger]


def cut_off(changes: Iterable[Change]) -> dict[str, int]:
    """The executions among these changes that have ended without success, by id, each with the time of its end in milliseconds. Some calls
    of these executions may still be open in the ledger."""
    return {change.header.id: change.header.ended_at or 0 for change in changes if change.header.status in CUT_OFF}


def lost_calls(open_calls: Iterable[Row], ended: Mapping[str, int]) -> list[LedgerEntry]:
    """The entries that end these open calls, which are given as rows of the ledger. `ended` has, by id, the time at which the execution of
    each call ended."""
    begun = map(_entry_from, open_calls)
    return [lost(one, ended[one.run]) for one in begun]


def entry_row(entry: LedgerEntry) -> Row:
    """The row of an entry, in the order of the statement `put_ledger`."""
    price = (entry.price_source, entry.price_date)
    return (entry.at, entry.day, *_who(entry), entry.state.value, *_amounts(entry), *price, entry.expires_at)


def day_rows(entries: Iterable[LedgerEntry]) -> list[Row]:
    """The rows that these entries add to the daily sums. There is one row for each sum. The rows are in the order of their keys, so that
    all processes lock the sums in the same order."""
    sums: dict[Row, Row] = {}
    for entry in entries:
        who = (entry.day, entry.tenant, entry.pipeline, entry.node, entry.worker, entry.model, entry.state.value, entry.expires_at)
        before = sums.get(who, (0,) * 8)
        sums[who] = tuple(one + other for one, other in zip(before, (1, *_amounts(entry)), strict=True))
    return [(*who, *sums[who]) for who in sorted(sums)]


def _entry_from(row: Row) -> LedgerEntry:
    at, _, *rest, source, date, expires_at = row
    who, (state, *amounts) = rest[: len(_WHO)], rest[len(_WHO) :]
    told = dict(zip(_WHO, who, strict=True)) | dict(zip(_AMOUNTS, amounts, strict=True))
    return LedgerEntry(at=at, state=EntryState(state), price_source=source, price_date=date, expires_at=expires_at, **told)


def _sum_from(row: Row, places: Sequence[int]) -> CostSum:
    state, calls, *amounts = row[len(_DIMENSIONS) :]
    group = tuple(row[place] for place in places)
    return CostSum(group=group, state=EntryState(state), calls=calls, **dict(zip(_AMOUNTS, amounts, strict=True)))
