"""The source of the console's pages: everything that one caller may read and do. Pages know nothing of the store behind it."""

from __future__ import annotations

from functools import cached_property

from holdfast.console.sources.approvals import ApprovalsSource
from holdfast.console.sources.home import HomeSource
from holdfast.console.sources.runs import RunsSource
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
    def approvals(self) -> ApprovalsSource:
        """What people decide."""
        return ApprovalsSource(self.viewer)

    @cached_property
    def home(self) -> HomeSource:
        """What the first page tells."""
        return HomeSource(self.viewer)
