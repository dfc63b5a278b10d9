"""The source of the console's pages: everything that one caller may read and do. Pages reach the store only through it."""

from __future__ import annotations

from functools import cached_property

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
    """The reads and actions of one caller: one property for each group of pages."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer

    @cached_property
    def runs(self) -> RunsSource:
        """The list of runs and executions."""
        return RunsSource(self.viewer)

    @cached_property
    def approvals(self) -> ApprovalsSource:
        """Approvals and their decisions."""
        return ApprovalsSource(self.viewer)

    @cached_property
    def home(self) -> HomeSource:
        """The data of the first page."""
        return HomeSource(self.viewer)

    @cached_property
    def queues(self) -> QueuesSource:
        """Queues, their lanes and their parked runs."""
        return QueuesSource(self.viewer)

    @cached_property
    def schedules(self) -> SchedulesSource:
        """Schedules."""
        return SchedulesSource(self.viewer)

    @cached_property
    def cost(self) -> CostSource:
        """What runs have cost."""
        return CostSource(self.viewer)

    @cached_property
    def runners(self) -> RunnersSource:
        """The runners, and the functions, workers and pipelines that runners have published."""
        return RunnersSource(self.viewer)

    @cached_property
    def signals(self) -> SignalsSource:
        """Subscribers and signals."""
        return SignalsSource(self.viewer)

    @cached_property
    def audit(self) -> AuditSource:
        """The audit log."""
        return AuditSource(self.viewer)

    @cached_property
    def keys(self) -> KeysSource:
        """Credentials."""
        return KeysSource(self.viewer)

    @cached_property
    def bulk(self) -> BulkSource:
        """Actions on many runs at once."""
        return BulkSource(self.viewer)

    @cached_property
    def catalog(self) -> CatalogSource:
        """Workers, pipelines and functions."""
        return CatalogSource(self.viewer)

    @cached_property
    def starts(self) -> StartSource:
        """Starting runs and executions."""
        return StartSource(self.viewer)

    @cached_property
    def restarts(self) -> RestartSource:
        """Restarting and retrying runs and executions."""
        return RestartSource(self.viewer)

    @cached_property
    def compare(self) -> CompareSource:
        """Comparisons of two runs."""
        return CompareSource(self.viewer)

    @cached_property
    def run(self) -> RunSource:
        """One run or execution."""
        return RunSource(self.viewer)

    @cached_property
    def timeline(self) -> TimelineSource:
        """The rows of a run's timeline."""
        return TimelineSource(self.viewer)

    @cached_property
    def operations(self) -> OperationSource:
        """One operation of a run."""
        return OperationSource(self.viewer)

    @cached_property
    def run_tests(self) -> RunTestSource:
        """Tests that are made from recorded runs."""
        return RunTestSource(self.viewer)
