"""stores — the suite that every backend of a store must pass. Inherit it, provide one fixture, run pytest.

    class TestMyStore(SharedStoreSuite):
        @pytest.fixture
        def opening(self, tmp_path): ...      # a call that opens the store of this test for a member

Belongs: facts that can be seen through `holdfast.store.seam`. A test's name is the fact.
Does not: anything that only one backend can get wrong.   May import: holdfast.model, holdfast.store, pytest.
Start reading at handles.py, then fencing.py. `StoreSuite` needs one handle; `SharedStoreSuite` also opens the store again, after closing
it and beside it. Both are put together of parts, one file each, so that a new backend can begin with one. Names are loaded when they are
asked for: writes.py, which tells the stories, is also for programs without pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.stores.auditing import AuditSuite as AuditSuite
    from holdfast.testing.stores.auditing import SharedAuditSuite as SharedAuditSuite
    from holdfast.testing.stores.batches import BatchSuite as BatchSuite
    from holdfast.testing.stores.chaining import ChainingSuite as ChainingSuite
    from holdfast.testing.stores.charging import ChargingSuite as ChargingSuite
    from holdfast.testing.stores.charging import SharedChargingSuite as SharedChargingSuite
    from holdfast.testing.stores.copies import CopySuite as CopySuite
    from holdfast.testing.stores.credentials import CredentialsSuite as CredentialsSuite
    from holdfast.testing.stores.credentials import SharedCredentialsSuite as SharedCredentialsSuite
    from holdfast.testing.stores.fencing import FencingSuite as FencingSuite
    from holdfast.testing.stores.fencing import SharedFencingSuite as SharedFencingSuite
    from holdfast.testing.stores.handles import Opening as Opening
    from holdfast.testing.stores.isolating import IsolationSuite as IsolationSuite
    from holdfast.testing.stores.keeping import KeepingSuite as KeepingSuite
    from holdfast.testing.stores.listing import ListingSuite as ListingSuite
    from holdfast.testing.stores.outbox import OutboxSuite as OutboxSuite
    from holdfast.testing.stores.outbox import SharedOutboxSuite as SharedOutboxSuite
    from holdfast.testing.stores.races import RaceSuite as RaceSuite
    from holdfast.testing.stores.retention import RetentionSuite as RetentionSuite
    from holdfast.testing.stores.retention import SharedRetentionSuite as SharedRetentionSuite
    from holdfast.testing.stores.runners import RunnerSuite as RunnerSuite
    from holdfast.testing.stores.sharing import SharingSuite as SharingSuite
    from holdfast.testing.stores.starting import StartingSuite as StartingSuite
    from holdfast.testing.stores.suite import SharedStoreSuite as SharedStoreSuite
    from holdfast.testing.stores.suite import StoreSuite as StoreSuite
    from holdfast.testing.stores.timers import TimerSuite as TimerSuite
    from holdfast.testing.stores.waking import SharedWakingSuite as SharedWakingSuite
    from holdfast.testing.stores.waking import WakingSuite as WakingSuite

_WHERE = {
    "AuditSuite": "auditing",
    "BatchSuite": "batches",
    "ChainingSuite": "chaining",
    "ChargingSuite": "charging",
    "CopySuite": "copies",
    "CredentialsSuite": "credentials",
    "FencingSuite": "fencing",
    "IsolationSuite": "isolating",
    "KeepingSuite": "keeping",
    "ListingSuite": "listing",
    "Opening": "handles",
    "OutboxSuite": "outbox",
    "RaceSuite": "races",
    "RetentionSuite": "retention",
    "RunnerSuite": "runners",
    "SharedAuditSuite": "auditing",
    "SharedChargingSuite": "charging",
    "SharedCredentialsSuite": "credentials",
    "SharedFencingSuite": "fencing",
    "SharedOutboxSuite": "outbox",
    "SharedRetentionSuite": "retention",
    "SharedStoreSuite": "suite",
    "SharedWakingSuite": "waking",
    "SharingSuite": "sharing",
    "StartingSuite": "starting",
    "StoreSuite": "suite",
    "TimerSuite": "timers",
    "WakingSuite": "waking",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.testing.stores' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.testing.stores.{_WHERE[name]}"), name)
