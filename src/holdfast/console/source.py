"""The source of the console's pages: everything that one caller may read and do. Pages know nothing of the store behind it."""

from __future__ import annotations

from functools import cached_property

from holdfast.console.sources.again import AgainSource
from holdfast.console.sources.catalog import CatalogSource
from holdfast.console.sources.compare import CompareSource
from holdfast.console.sources.runs import RunsSource
from holdfast.console.sources.starting import StartingSource
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
    def catalog(self) -> CatalogSource:
        """Workers, pipelines and functions."""
        return CatalogSource(self.viewer)

    @cached_property
    def starting(self) -> StartingSource:
        """Starts of runs and executions."""
        return StartingSource(self.viewer)

    @cached_property
    def again(self) -> AgainSource:
        """Restarts and retries."""
        return AgainSource(self.viewer)

    @cached_property
    def compare(self) -> CompareSource:
        """Comparisons of two runs."""
        return CompareSource(self.viewer)
