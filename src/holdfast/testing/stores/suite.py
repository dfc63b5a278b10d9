"""The whole suite: all that a full backend must pass."""

from holdfast.testing.stores.auditing import AuditSuite, SharedAuditSuite
from holdfast.testing.stores.batches import BatchSuite
from holdfast.testing.stores.chaining import ChainingSuite
from holdfast.testing.stores.charging import ChargingSuite, SharedChargingSuite
from holdfast.testing.stores.copies import CopySuite
from holdfast.testing.stores.credentials import CredentialsSuite, SharedCredentialsSuite
from holdfast.testing.stores.fencing import FencingSuite, SharedFencingSuite
from holdfast.testing.stores.isolating import IsolationSuite
from holdfast.testing.stores.keeping import KeepingSuite
from holdfast.testing.stores.listing import ListingSuite
from holdfast.testing.stores.outbox import OutboxSuite, SharedOutboxSuite
from holdfast.testing.stores.races import RaceSuite
from holdfast.testing.stores.retention import RetentionSuite, SharedRetentionSuite
from holdfast.testing.stores.runners import RunnerSuite
from holdfast.testing.stores.sharing import SharingSuite
from holdfast.testing.stores.starting import StartingSuite
from holdfast.testing.stores.timers import TimerSuite
from holdfast.testing.stores.waking import SharedWakingSuite, WakingSuite


class StoreSuite(
    StartingSuite, BatchSuite, IsolationSuite, KeepingSuite, FencingSuite, WakingSuite, TimerSuite, RunnerSuite, ChainingSuite,
    ListingSuite, OutboxSuite, RetentionSuite, CopySuite, CredentialsSuite,
    ChargingSuite, AuditSuite,
):  # fmt: skip
    """Any store. One handle; a backend's class provides the fixture `opening`."""


class SharedStoreSuite(
    StoreSuite, SharingSuite, SharedFencingSuite, SharedWakingSuite, SharedOutboxSuite, SharedRetentionSuite, SharedCredentialsSuite,
    SharedChargingSuite, SharedAuditSuite, RaceSuite,
):  # fmt: skip
    """A store that outlives a handle, and that several processes may open."""
