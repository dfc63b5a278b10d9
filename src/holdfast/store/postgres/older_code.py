"""Some things may be written only after no process of older code runs any more. The after-half of a migration step notes this in the store
(`least`)."""

from __future__ import annotations

from typing import Final

from holdfast.model.errors import StoreNotMigrated
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session

SUPERSEDING: Final = 7
"""The step of the schema that lets a name be started again: older code would find two executions of one name."""
PIPELINES: Final = 8
"""The step of the schema that lets pipelines be started: older code would not remove their graphs, and would not reserve money in their
budgets."""
QUEUES: Final = 10
"""The step of the schema that lets executions be enqueued: older code would not give their slots back."""

SHARED_RATES: Final = 15
"""The step of the schema that lets lanes share a rate: older code would not see that rate."""


class OlderCode(PostgresReads):
    """The part of a store that knows which is the oldest code that may use it."""

    _writer: Session
    _least = 0
    """The store's `least` when it was last read. It never becomes smaller."""

    def _check_least(self, step: int, what: str) -> None:
        """Raise StoreNotMigrated if code that is older than this step may still use the store. `what` is the beginning of the message, for
        example `A pipeline can be started`."""
        if not self._is_least(step):
            raise StoreNotMigrated(
                f"{what} only when `holdfast db migrate --after` was run with this store: "
                "do that when no process of an older release runs any more."
            )

    def _is_least(self, step: int) -> bool:
        """True if code that is older than this step may not use the store any more."""
        if self._least < step:
            ((self._least,),) = self._writer.run(self._sql["least"])
        return self._least >= step
