"""The whole suite: all parts that a complete backend must pass."""

from holdfast.testing.stores.audit_log import AuditSuite, SharedAuditSuite
from holdfast.testing.stores.batches import BatchSuite
from holdfast.testing.stores.browse_reads import BrowsingSuite
from holdfast.testing.stores.chained_writes import ChainingSuite
from holdfast.testing.stores.console_state import (
    ConsoleStateSuite,
    DirectorySuite,
    OutlineSuite,
    SharedConsoleStateSuite,
    SummarySuite,
)
from holdfast.testing.stores.copies import CopySuite
from holdfast.testing.stores.counters import ChargingSuite, SharedChargingSuite
from holdfast.testing.stores.credentials import CredentialsSuite, SharedCredentialsSuite
from holdfast.testing.stores.fencing import FencingSuite, SharedFencingSuite
from holdfast.testing.stores.graphs import GraphSuite, SharedGraphSuite
from holdfast.testing.stores.isolation import IsolationSuite
from holdfast.testing.stores.ledger import LedgerSuite, SharedLedgerSuite
from holdfast.testing.stores.lists import ListingSuite
from holdfast.testing.stores.outbox import OutboxSuite, SharedOutboxSuite
from holdfast.testing.stores.picky_runners import PickyRunnerSuite
from holdfast.testing.stores.queue_ends import QueueEndSuite
from holdfast.testing.stores.queue_rates import QueueRateSuite, SharedQueueRateSuite
from holdfast.testing.stores.queue_settings import QueueSettingSuite, SharedQueueSuite
from holdfast.testing.stores.queues import QueueSuite
from holdfast.testing.stores.races import RaceSuite
from holdfast.testing.stores.read_back import KeepingSuite
from holdfast.testing.stores.retention import RetentionSuite, SharedRetentionSuite
from holdfast.testing.stores.runners import RunnerSuite
from holdfast.testing.stores.scheduled import ScheduleSuite, SharedScheduleSuite
from holdfast.testing.stores.shared_stores import SharingSuite
from holdfast.testing.stores.starts import StartingSuite
from holdfast.testing.stores.timers import TimerSuite
from holdfast.testing.stores.wakeups import SharedWakingSuite, WakingSuite


class StoreSuite(
    StartingSuite, BatchSuite, IsolationSuite, KeepingSuite, FencingSuite, WakingSuite, TimerSuite, RunnerSuite, ChainingSuite,
    ListingSuite, OutboxSuite, RetentionSuite, CopySuite, CredentialsSuite,
    ChargingSuite, AuditSuite, GraphSuite, QueueSuite, QueueEndSuite, QueueSettingSuite, QueueRateSuite, PickyRunnerSuite,
    ScheduleSuite, LedgerSuite, BrowsingSuite, ConsoleStateSuite, SummarySuite, OutlineSuite, DirectorySuite,
):  # fmt: skip
    """All tests that need one handle of the store. A backend's class inherits from this and provides the fixture `opening`."""


class SharedStoreSuite(
    StoreSuite, SharingSuite, SharedFencingSuite, SharedWakingSuite, SharedOutboxSuite, SharedRetentionSuite, SharedCredentialsSuite,
    SharedChargingSuite, SharedAuditSuite, SharedGraphSuite, SharedQueueSuite, SharedQueueRateSuite, SharedScheduleSuite, SharedLedgerSuite,
    SharedConsoleStateSuite, RaceSuite,
):  # fmt: skip
    """All tests of StoreSuite, and the tests for a store that keeps its data after its handles are closed and that several processes may
    open at the same time."""
