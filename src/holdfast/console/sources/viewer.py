"""The viewer: one caller of the console, and the store as this caller may see it."""

from __future__ import annotations

from functools import cached_property

from holdfast.console.served import Served
from holdfast.model.audit import Actor
from holdfast.model.clock import Clock
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, State
from holdfast.model.ids import IdSource
from holdfast.model.standing import Standing, standing_of
from holdfast.service.client import Client
from holdfast.store.browsing import Browse
from holdfast.store.seam import Store
from holdfast.workers.run_lookup import Asker

READ_SECONDS = 5.0
"""How long a page may read lists and counts."""


class Viewer:
    """A caller. Everything that a source reads for a page, it reads through the viewer of that page."""

    def __init__(
        self,
        store: Store,
        where: str,
        *,
        clock: Clock,
        ids: IdSource,
        asker: Asker,
        actor: Actor | None,
        tenant: str | None,
        served: Served | None = None,
    ) -> None:
        self.store = store
        self.where = where
        self.clock = clock
        self.ids = ids
        self.asker = asker
        self.actor = actor
        self.tenant = tenant
        """The tenant that the caller is kept to; None sees all."""
        self.served = served
        """What the server beside the console serves; None if there is none."""

    @cached_property
    def client(self) -> Client:
        """The verbs of an operator. The audit log names this caller for each of them."""
        return Client(self.store, self.where, clock=self.clock, ids=self.ids, actor=self.actor)

    @property
    def now(self) -> int:
        """The time that counts in this store."""
        return self.clock.now()

    @property
    def owner(self) -> str:
        """The name under which the caller's own things are kept, such as saved views."""
        return self.asker.principal

    def may_see(self, header: Execution) -> bool:
        """Whether the execution is of the caller's tenant."""
        return self.tenant is None or (header.tenant or "default") == self.tenant

    def standing(self, header: Execution) -> Standing:
        """How an execution stands, as the list of runs tells it. Only one that is suspended may wait for a person: the store is asked."""
        if header.state is State.SUSPENDED:
            for row in self.store.browse(Browse(text=header.id, limit=2), READ_SECONDS).rows:
                if row.header.id == header.id:  # another one may have this id as its name
                    return row.standing
        return standing_of(header, undecided=False)

    def find(self, execution: str) -> Execution:
        """An execution by its id. One of another tenant looks as if it did not exist."""
        header = self.store.find(execution)
        if header is None or not self.may_see(header):
            raise ExecutionNotFound(f"There is no execution {execution!r:.100}.")
        return header
