"""The part of the worker service that only runs of pipelines need (pipelines.scene.environment.RunService)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from holdfast.contract.terms import Contract
from holdfast.engine.engine import Engine
from holdfast.model.errors import CallbackClosed
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.accept import ServedVersion
from holdfast.workers.decisions import Cancel, withdrawal
from holdfast.workers.earlier_runs import EarlierRun, earlier_run
from holdfast.workers.run_lookup import open_child


class PipelineParts:
    """What a pipeline's run asks of the worker service, beside what every run asks."""

    _engine: Engine
    _served: dict[str, dict[str, ServedVersion]]

    def contract(self, worker_id: str, version: str | None) -> Contract | None:
        """The contract of a worker. `version` names the version; None: the version that was served last. The result is None if this process
        does not serve the worker, or not this version of it."""
        versions = self._served.get(worker_id)
        served = None if not versions else next(reversed(versions.values())) if version is None else versions.get(version)
        return None if served is None else served.worker.contract

    async def holders(self) -> Mapping[str, str]:
        """For each credential that belongs to a person: its id, and the name of the person."""
        found = await in_thread(Purpose.STORE, self._engine.store.credentials)
        return {one.id: one.person for one in found if one.person is not None}

    async def earlier_run(self, run_id: str, tenant: str) -> EarlierRun | None:
        """An earlier run of a tenant; None if the store has removed it, if it belongs to another tenant, or if it is not a run."""
        return await in_thread(Purpose.STORE, earlier_run, self._engine.store, run_id, tenant)

    async def cancel_child(self, parent: str, operation_id: str) -> None:
        """Cancel the child run that the operation `operation_id` of the run `parent` waits for. Nothing happens if no such child run is
        under way."""
        child = await in_thread(Purpose.STORE, open_child, self._engine.store, parent, operation_id)
        if child is not None:
            await self._engine.wake(lambda by: Cancel(child, by), child)

    async def withdraw(self, run_id: str, operation_id: str) -> None:
        """Take back a question of a run. Nothing happens if the question is closed already."""
        with contextlib.suppress(CallbackClosed):
            await self._engine.wake(lambda by: msgspec.structs.replace(withdrawal(run_id, operation_id), by=by), run_id)
