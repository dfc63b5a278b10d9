"""The part of a store's specification (seam.py) that is about the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.ledger import CostFilter, CostSample, CostSum, LedgerEntry


class LedgerStore(Protocol):
    """The ledger (model.ledger). Entries travel with the writes that they belong to (`Change.ledger`); `expire` removes old ones."""

    def cost(self, wanted: CostFilter) -> Sequence[CostSum]:
        """Sums by group and state. With a run they come from its entries, else from the daily sums."""
        ...

    def ledger(self, run: str, limit: int = 10_000) -> Sequence[LedgerEntry]:
        """The entries of one run, in the order in which they were written."""
        ...

    def cost_samples(self, pipeline: str, tenant: str | None = None) -> Sequence[CostSample]:
        """What runs spent for each node of a pipeline, by its newest calls."""
        ...

    def cost_samples_of_worker(self, worker: str, tenant: str | None = None) -> Sequence[CostSample]:
        """What each run of a worker spent that no pipeline asked for, by the newest calls of such runs."""
        ...
