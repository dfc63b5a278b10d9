"""stores — the test suite that every store backend must pass. Inherit from it, provide one fixture, and run pytest.

    class TestMyStore(SharedStoreSuite):
        @pytest.fixture
        def opening(self, tmp_path): ...      # returns a callable: it gets the name of a process, and opens this test's store for it

Belongs: facts that a caller of `holdfast.store.seam` can observe. The name of a test states the fact.
Does not: tests of one backend's own code.   May import: holdfast.model, holdfast.store, pytest.
Start reading at opened_stores.py, then fencing.py. `StoreSuite` needs one handle. `SharedStoreSuite` also opens the store again, after it
was closed and while it is open. Both consist of parts, one file each, so that the author of a new backend can begin with one part. Names
are imported when they are first used, because programs without pytest use writes.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.stores.audit_log import AuditSuite as AuditSuite
    from holdfast.testing.stores.audit_log import SharedAuditSuite as SharedAuditSuite
    from holdfast.testing.stores.batches import BatchSuite as BatchSuite
    from holdfast.testing.stores.browse_reads import BrowsingSuite as BrowsingSuite
    from holdfast.testing.stores.chained_writes import ChainingSuite as ChainingSuite
    from holdfast.testing.stores.console_state import ConsoleStateSuite as ConsoleStateSuite
    from holdfast.testing.stores.console_state import DirectorySuite as DirectorySuite
    from holdfast.testing.stores.console_state import OutlineSuite as OutlineSuite
    from holdfast.testing.stores.console_state import SharedConsoleStateSuite as SharedConsoleStateSuite
    from holdfast.testing.stores.console_state import SummarySuite as SummarySuite
    from holdfast.testing.stores.copies import CopySuite as CopySuite
    from holdfast.testing.stores.counters import ChargingSuite as ChargingSuite
    from holdfast.testing.stores.counters import SharedChargingSuite as SharedChargingSuite
    from holdfast.testing.stores.credentials import CredentialsSuite as CredentialsSuite
    from holdfast.testing.stores.credentials import SharedCredentialsSuite as SharedCredentialsSuite
    from holdfast.testing.stores.fencing import FencingSuite as FencingSuite
    from holdfast.testing.stores.fencing import SharedFencingSuite as SharedFencingSuite
    from holdfast.testing.stores.graphs import GraphSuite as GraphSuite
    from holdfast.testing.stores.graphs import SharedGraphSuite as SharedGraphSuite
    from holdfast.testing.stores.isolation import IsolationSuite as IsolationSuite
    from holdfast.testing.stores.ledger import LedgerSuite as LedgerSuite
    from holdfast.testing.stores.ledger import SharedLedgerSuite as SharedLedgerSuite
    from holdfast.testing.stores.lists import ListingSuite as ListingSuite
    from holdfast.testing.stores.opened_stores import Opening as Opening
    from holdfast.testing.stores.outbox import OutboxSuite as OutboxSuite
    from holdfast.testing.stores.outbox import SharedOutboxSuite as SharedOutboxSuite
    from holdfast.testing.stores.picky_runners import PickyRunnerSuite as PickyRunnerSuite
    from holdfast.testing.stores.queue_ends import QueueEndSuite as QueueEndSuite
    from holdfast.testing.stores.queue_rates import QueueRateSuite as QueueRateSuite
    from holdfast.testing.stores.queue_rates import SharedQueueRateSuite as SharedQueueRateSuite
    from holdfast.testing.stores.queue_settings import QueueSettingSuite as QueueSettingSuite
    from holdfast.testing.stores.queue_settings import SharedQueueSuite as SharedQueueSuite
    from holdfast.testing.stores.queues import QueueSuite as QueueSuite
    from holdfast.testing.stores.races import RaceSuite as RaceSuite
    from holdfast.testing.stores.read_back import KeepingSuite as KeepingSuite
    from holdfast.testing.stores.retention import RetentionSuite as RetentionSuite
    from holdfast.testing.stores.retention import SharedRetentionSuite as SharedRetentionSuite
    from holdfast.testing.stores.runners import RunnerSuite as RunnerSuite
    from holdfast.testing.stores.scheduled import ScheduleSuite as ScheduleSuite
    from holdfast.testing.stores.scheduled import SharedScheduleSuite as SharedScheduleSuite
    from holdfast.testing.stores.shared_stores import SharingSuite as SharingSuite
    from holdfast.testing.stores.starts import StartingSuite as StartingSuite
    from holdfast.testing.stores.suite import SharedStoreSuite as SharedStoreSuite
    from holdfast.testing.stores.suite import StoreSuite as StoreSuite
    from holdfast.testing.stores.timers import TimerSuite as TimerSuite
    from holdfast.testing.stores.wakeups import SharedWakingSuite as SharedWakingSuite
    from holdfast.testing.stores.wakeups import WakingSuite as WakingSuite

_WHERE = {
    "AuditSuite": "audit_log",
    "BatchSuite": "batches",
    "BrowsingSuite": "browse_reads",
    "ChainingSuite": "chained_writes",
    "ChargingSuite": "counters",
    "ConsoleStateSuite": "console_state",
    "CopySuite": "copies",
    "CredentialsSuite": "credentials",
    "DirectorySuite": "console_state",
    "FencingSuite": "fencing",
    "GraphSuite": "graphs",
    "IsolationSuite": "isolation",
    "KeepingSuite": "read_back",
    "LedgerSuite": "ledger",
    "ListingSuite": "lists",
    "Opening": "opened_stores",
    "OutboxSuite": "outbox",
    "OutlineSuite": "console_state",
    "PickyRunnerSuite": "picky_runners",
    "QueueEndSuite": "queue_ends",
    "QueueRateSuite": "queue_rates",
    "QueueSettingSuite": "queue_settings",
    "QueueSuite": "queues",
    "RaceSuite": "races",
    "RetentionSuite": "retention",
    "RunnerSuite": "runners",
    "ScheduleSuite": "scheduled",
    "SharedAuditSuite": "audit_log",
    "SharedChargingSuite": "counters",
    "SharedConsoleStateSuite": "console_state",
    "SharedCredentialsSuite": "credentials",
    "SharedFencingSuite": "fencing",
    "SharedGraphSuite": "graphs",
    "SharedLedgerSuite": "ledger",
    "SharedOutboxSuite": "outbox",
    "SharedQueueRateSuite": "queue_rates",
    "SharedQueueSuite": "queue_settings",
    "SharedRetentionSuite": "retention",
    "SharedScheduleSuite": "scheduled",
    "SharedStoreSuite": "suite",
    "SharedWakingSuite": "wakeups",
    "SharingSuite": "shared_stores",
    "StartingSuite": "starts",
    "StoreSuite": "suite",
    "SummarySuite": "console_state",
    "TimerSuite": "timers",
    "WakingSuite": "wakeups",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.testing.stores' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.testing.stores.{_WHERE[name]}"), name)
