"""The source of the console's pages: everything that one caller may read and do. Pages know nothing of the store behind it."""

from __future__ import annotations

from functools import cached_property

from holdfast.console.sources.run import RunSource
from holdfast.console.sources.run_operation import OperationSource
from holdfast.console.sources.runs import RunsSource
from holdfast.console.sources.timeline import TimelineSource
from holdfast.console.sources.viewer import Viewer


class Source:
    """The reads and actions of one caller, by group of pages."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer

    @cached_property
    def runs(self) -> RunsSource:
        """The list of runs and executions."""
        return RunsSource(self.viewer)

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
