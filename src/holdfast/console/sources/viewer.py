"""The viewer: one caller of the console, and the store as this caller may see it."""

from __future__ import annotations

from functools import cached_property

from holdfast.console.server_process import ServerProcess
from holdfast.model.audit import Actor
from holdfast.model.clock import Clock
from holdfast.model.credentials import tenant_of
from holdfast.model.errors import ExecutionNotFound
from holdfast.model.execution import Execution, State
from holdfast.model.ids import IdSource
from holdfast.model.shown_status import ShownStatus, shown_status
from holdfast.service.client import Client
from holdfast.store.browse import Browse
from holdfast.store.seam import Store
from holdfast.workers.run_lookup import Caller

READ_SECONDS = 5.0
"""How many seconds one read of a list or a count may take. A read that takes longer raises ReadTooLong."""


class Viewer:
    """One caller of the console. A source reads the store only through it."""

    def __init__(
        self,
        store: Store,
        where: str,
        *,
        clock: Clock,
        ids: IdSource,
        caller: Caller,
        actor: Actor | None,
        tenant: str | None,
        served: ServerProcess | None = None,
    ) -> None:
        self.store = store
        self.where = where
        self.clock = clock
        self.ids = ids
        self.caller = caller
        self.actor = actor
        self.tenant = tenant
        """The tenant that the caller belongs to; None if the caller sees all tenants."""
        self.served = served
        """What the console's server serves; None for a console without a server."""

    @cached_property
    def client(self) -> Client:
        """A client with which the console acts as an operator does. The audit log names this caller for each action. If `actor` is None,
        nothing is written to the audit log."""
        return Client(self.store, self.where, clock=self.clock, ids=self.ids, actor=self.actor)

    @property
    def now(self) -> int:
        """The present time, in milliseconds."""
        return self.clock.now()

    @property
    def owner(self) -> str:
        """The name of the caller, under which the store keeps what belongs to this caller, such as saved views."""
        return self.caller.principal

    def may_see(self, header: Execution) -> bool:
        """Whether the execution is of the caller's tenant. Always True for a caller who sees all tenants."""
        return self.tenant is None or tenant_of(header.tenant) == self.tenant

    def status(self, header: Execution) -> ShownStatus:
        """The status of an execution, the same as in the list of runs. A suspended execution may wait for a person, so its status is read
        from the store. For any other execution the header is enough."""
        if header.state is State.SUSPENDED:
            for row in self.store.browse(Browse(text=header.id, limit=2), READ_SECONDS).rows:
                if row.header.id == header.id:  # another execution may have this id as its name
                    return row.status
        return shown_status(header, undecided=False)

    def find(self, execution: str) -> Execution:
        """The execution with this id. Raises ExecutionNotFound if there is none, and the same error if it belongs to another tenant."""
        header = self.store.find(execution)
        if header is None or not self.may_see(header):
            raise ExecutionNotFound(f"There is no execution {execution!r:.100}.")
        return header


class CallerSource:
    """What one caller, the viewer, may read and do on a group of pages. The base class of the sources."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
