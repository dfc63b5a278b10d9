"""What runs have cost, for one caller: a tenant sees its own costs only."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.console.sources.viewer import CallerSource
from holdfast.costs.reports import CostQuestion, CostReport
from holdfast.model.ledger import Dimension

DIMENSIONS: Final = (Dimension.PIPELINE, Dimension.NODE, Dimension.MODEL, Dimension.TENANT, Dimension.WORKER, Dimension.DAY)
"""The fields by which the page can group its sums."""


class CostSource(CallerSource):
    """Reads from the ledger what runs have cost."""

    def report(self, asked: CostQuestion) -> CostReport:
        """The sums of each group. `asked` says how to group, and what is summed. If the caller belongs to a tenant, only that tenant is
        summed, also when `asked` names another one."""
        tenant = self._viewer.tenant
        confined = asked if tenant is None else msgspec.structs.replace(asked, tenant=tenant)
        return self._viewer.client.cost(**msgspec.structs.asdict(confined))
