"""The source of the console's pages: everything that one caller may read and do. Pages reach the store only through it."""

from __future__ import annotations

from holdfast.console.sources.approvals import ApprovalsSource
from holdfast.console.sources.audit import AuditSource
from holdfast.console.sources.bulk import BulkSource
from holdfast.console.sources.catalog import CatalogSource
from holdfast.console.sources.compare import CompareSource
from holdfast.console.sources.cost import CostSource
from holdfast.console.sources.home import HomeSource
from holdfast.console.sources.keys import KeysSource
from holdfast.console.sources.queues import QueuesSource
from holdfast.console.sources.restarts import RestartSource
from holdfast.console.sources.run import RunSource
from holdfast.console.sources.run_operation import OperationSource
from holdfast.console.sources.run_tests import RunTestSource
from holdfast.console.sources.runners import RunnersSource
from holdfast.console.sources.runs import RunsSource
from holdfast.console.sources.schedules import SchedulesSource
from holdfast.console.sources.signals import SignalsSource
from holdfast.console.sources.starts import StartSource
from holdfast.console.sources.timeline import TimelineSource
from holdfast.console.sources.viewer import Viewer


class Source:
    """The reads and actions of one caller: one source for each group of pages."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.runs = RunsSource(viewer)
        self.approvals = ApprovalsSource(viewer)
        self.home = HomeSource(viewer)
        self.queues = QueuesSource(viewer)
        self.schedules = SchedulesSource(viewer)
        self.cost = CostSource(viewer)
        self.runners = RunnersSource(viewer)
        self.signals = SignalsSource(viewer)
        self.audit = AuditSource(viewer)
        self.keys = KeysSource(viewer)
        self.bulk = BulkSource(viewer)
        self.catalog = CatalogSource(viewer)
        self.starts = StartSource(viewer)
        self.restarts = RestartSource(viewer)
        self.compare = CompareSource(viewer)
        self.run = RunSource(viewer)
        self.timeline = TimelineSource(viewer)
        self.operations = OperationSource(viewer)
        self.run_tests = RunTestSource(viewer)
