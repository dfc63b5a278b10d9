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
        """Reads the list of runs and executions; reads, saves and removes the views of the caller."""
        return RunsSource(self.viewer)

    @cached_property
    def approvals(self) -> ApprovalsSource:
        """Reads approvals, and decides them."""
        return ApprovalsSource(self.viewer)

    @cached_property
    def home(self) -> HomeSource:
        """Reads the data of the first page."""
        return HomeSource(self.viewer)

    @cached_property
    def queues(self) -> QueuesSource:
        """Reads and changes queues, and starts their parked runs again."""
        return QueuesSource(self.viewer)

    @cached_property
    def schedules(self) -> SchedulesSource:
        """Reads and changes schedules."""
        return SchedulesSource(self.viewer)

    @cached_property
    def cost(self) -> CostSource:
        """Reads what runs have cost."""
        return CostSource(self.viewer)

    @cached_property
    def runners(self) -> RunnersSource:
        """Reads the runners, and the functions, workers and pipelines that runners have published."""
        return RunnersSource(self.viewer)

    @cached_property
    def signals(self) -> SignalsSource:
        """Reads subscribers, signals and dead letters."""
        return SignalsSource(self.viewer)

    @cached_property
    def audit(self) -> AuditSource:
        """Reads the audit log."""
        return AuditSource(self.viewer)

    @cached_property
    def keys(self) -> KeysSource:
        """Reads, makes, assigns and revokes credentials."""
        return KeysSource(self.viewer)

    @cached_property
    def bulk(self) -> BulkSource:
        """Finds many runs, and acts on them one by one."""
        return BulkSource(self.viewer)

    @cached_property
    def catalog(self) -> CatalogSource:
        """Reads the workers, pipelines and functions of the store."""
        return CatalogSource(self.viewer)

    @cached_property
    def starts(self) -> StartSource:
        """Starts runs and executions."""
        return StartSource(self.viewer)

    @cached_property
    def restarts(self) -> RestartSource:
        """Plans and starts restarts and retries of runs and executions."""
        return RestartSource(self.viewer)

    @cached_property
    def compare(self) -> CompareSource:
        """Compares two runs."""
        return CompareSource(self.viewer)

    @cached_property
    def run(self) -> RunSource:
        """Reads one run or execution, and acts on it."""
        return RunSource(self.viewer)

    @cached_property
    def timeline(self) -> TimelineSource:
        """Reads the rows of a run's timeline."""
        return TimelineSource(self.viewer)

    @cached_property
    def operations(self) -> OperationSource:
        """Reads the operations and the artifacts of a run."""
        return OperationSource(self.viewer)

    @cached_property
    def run_tests(self) -> RunTestSource:
        """Makes tests from recorded runs."""
        return RunTestSource(self.viewer)
