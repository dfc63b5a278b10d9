"""The part of a store's specification (seam.py) that is about the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.ledger import CostFilter, CostSample, CostSum, LedgerEntry


class LedgerStore(Protocol):
    """The ledger (model.ledger). An entry is written together with the write that it belongs to (`Change.ledger`). Entries whose time is
    over stay until `RetentionStore.expire` removes them."""

    def cost(self, wanted: CostFilter) -> Sequence[CostSum]:
        """What calls cost: one sum for each group (`wanted.by`) and state, at most `wanted.limit` sums. The groups with the highest cost
        are first; if `wanted.by` has the day, the groups are in the order of their values. If `wanted.run` is given, the entries of that
        run and of the runs below it are added up; days, pipeline and worker of `wanted` are then ignored. Else the daily sums are added
        up."""
        ...

    def ledger(self, run: str, limit: int = 10_000) -> Sequence[LedgerEntry]:
        """At most `limit` entries of one run, in the order in which they were written."""
        ...

    def ledger_root(self, run: str) -> str | None:
        """The `root` of an entry of this run or of a run below it; None if there is none. The whole ledger may be read, so ask this only
        about a run that the store has removed."""
        ...

    def cost_samples(self, pipeline: str, tenant: str | None = None) -> Sequence[CostSample]:
        """What those runs cost that a node of this pipeline asked for: one sample for each run, with the node's name. Only the 10,000
        newest calls of models and other paid tools are added up. If `tenant` is given, only runs of this tenant count."""
        ...

    def cost_samples_of_worker(self, worker: str, tenant: str | None = None) -> Sequence[CostSample]:
        """What those runs of this worker cost that no pipeline asked for: one sample for each run. Only the 10,000 newest calls of models
        and other paid tools are added up. If `tenant` is given, only runs of this tenant count."""
        ...
