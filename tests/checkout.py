"""The checkout stays as it was: a run whose tests leave a store, or what lies beside a store, in the project's folder fails.

A store without a path is `holdfast.db` in the current folder, and what lies beside a Postgres store is there, too. Git ignores both, so
without this check a test may find what an earlier run has left.
"""

from __future__ import annotations

from pathlib import Path

import pytest


class Checkout:
    """Compares the folder at the end of a run with the folder at its beginning."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = self._stores()

    def _stores(self) -> set[str]:
        return {path.name for path in self._root.glob("holdfast.*")}

    def left(self) -> list[str]:
        """What the run has left."""
        return sorted(self._stores() - self._before)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let the run fail if it has left something."""
        if self.left() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what the run has left, and what to do."""
        for name in self.left():
            terminalreporter.write_line(
                f"A test has left {name} in {self._root}: it opened a store without a path, or workers beside a Postgres store. "
                f"Let it work in tmp_path (`monkeypatch.chdir`), and remove {name}.",
                red=True,
            )


def watch(config: pytest.Config, root: Path) -> None:
    config.pluginmanager.register(Checkout(root), "checkout")
