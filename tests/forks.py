"""One run in several processes: `pytest --forks 6`.

To load ten thousand tests takes longer than most folders of them take to run, so they are loaded once: then this process forks, and gives
each fork tests to run. It never runs one itself, so it can fork again when a test kills its process. At the end, when all other forks are
gone, one fork runs the tests marked `alone`.

With `--again 8` it also runs the tests again that failed beside others, if they are not more than eight: of ten thousand tests a few may
depend on how busy the machine is. What passes then is told at the end of the run, with the text of its first failure.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

from tests import shared
from tests.parts import ALONE

AHEAD = 2
"""Tests that a fork has been given: the one that it runs, and the next one, which tells it what to tear down between the two."""


class Fork:
    """One process that runs tests, as the process that gives them sees it."""

    def __init__(self, pid: int, pipe: Connection, todo: deque[int]) -> None:
        self.pid = pid
        self.pipe = pipe
        self.todo = todo
        self.given: deque[int] = deque()
        self.ends = False

    def give(self, others: Iterable[Fork]) -> None:
        """Keep the fork busy; when it has done its own part, it takes half of the longest part of another."""
        while len(self.given) < AHEAD and not self.ends:
            if not self.todo:
                longest = max(others, key=lambda other: len(other.todo))
                self.todo.extend([longest.todo.pop() for _ in range((len(longest.todo) + 1) // 2)][::-1])
            self.ends = not self.todo
            if not self.ends:
                self.given.append(self.todo.popleft())
            self.pipe.send(None if self.ends else self.given[-1])


class Forks:
    """Forks, gives the tests out, and tells the reports to the plugins of this process as if the tests had run in it."""

    def __init__(self, config: pytest.Config, amount: int, again: int) -> None:
        self._config = config
        self._amount = amount
        self._tries = SecondTries(again)
        self._numbers = 0
        self._running: list[Fork] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or self._config.option.collectonly:
            return None
        shared.begin(self._config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
        alone = [number for number, item in enumerate(session.items) if item.get_closest_marker(ALONE)]
        together = sorted(set(range(len(session.items))).difference(alone))
        try:
            self._run(session, together, min(self._amount, len(together)))
            again = self._tries.begin()
            self._run(session, alone, min(1, len(alone)))
            self._run(session, again, min(1, len(again)))
        finally:
            for fork in list(self._running):
                self._end(fork)
            for number, reports in self._tries.left():  # the run was stopped before their second try
                self._tell(session.items[number], reports)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._tries.passed:
            terminalreporter.section("passed only when it ran alone")
        for name, text in self._tries.passed:
            terminalreporter.section(name, sep="_")
            terminalreporter.write_line(text)

    def _run(self, session: pytest.Session, numbers: Sequence[int], amount: int) -> None:
        share = len(numbers) / max(amount, 1)
        for part in range(amount):
            self._fork(session, deque(numbers[round(part * share) : round((part + 1) * share)]))
        for fork in self._running:
            fork.give(self._running)
        while self._running:
            ready = wait([fork.pipe for fork in self._running])
            for fork in [fork for fork in self._running if fork.pipe in ready]:
                self._hear(session, fork)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)

    def _fork(self, session: pytest.Session, todo: deque[int]) -> Fork:
        mine, its = Pipe()
        self._numbers += 1
        if (pid := os.fork()) == 0:
            for pipe in [mine, *(other.pipe for other in self._running)]:
                pipe.close()  # else a fork would outlive the process that forks
            Runs(session, its, self._numbers).until_told()
        its.close()
        self._running.append(fork := Fork(pid, mine, todo))
        return fork

    def _hear(self, session: pytest.Session, fork: Fork) -> None:
        try:
            reports = fork.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._gone(session, fork)
            return
        self._heard(session, fork.given.popleft(), reports)
        fork.give(self._running)

    def _gone(self, session: pytest.Session, fork: Fork) -> None:
        """It has run all its tests, or a test has killed it: another fork runs the others then."""
        how = self._end(fork)
        if not fork.given:
            return
        number = fork.given.popleft()
        item = session.items[number]
        died = pytest.TestReport(item.nodeid, item.location, {}, "failed", f"the test ended its process: {how}", "call")
        self._heard(session, number, [self._config.hook.pytest_report_to_serializable(config=self._config, report=died)])
        self._fork(session, fork.given + fork.todo).give(self._running)

    def _end(self, fork: Fork) -> str:
        self._running.remove(fork)
        fork.pipe.close()
        code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _heard(self, session: pytest.Session, number: int, told: Iterable[dict[str, Any]]) -> None:
        reports = [self._config.hook.pytest_report_from_serializable(config=self._config, data=data) for data in told]
        for one, its in self._tries.after(number, reports):
            self._tell(session.items[one], its)

    def _tell(self, item: pytest.Item, reports: Iterable[pytest.TestReport]) -> None:
        hook = self._config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class SecondTries:
    """The tests that failed beside others, until they have run once more, alone. When they are too many, none of them does."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: dict[int, list[pytest.TestReport]] = {}
        self._alone = False
        self.passed: list[tuple[str, str]] = []
        """Name and first failure of the tests whose second try passed."""

    def begin(self) -> list[int]:
        """The tests that run again; those that fail for the first time from now on do not."""
        self._alone = True
        return sorted(self._first)

    def after(self, number: int, reports: list[pytest.TestReport]) -> list[tuple[int, list[pytest.TestReport]]]:
        """What can be told after a test has run: a failure that is tried again is told after its second try."""
        if (first := self._first.pop(number, None)) is not None:
            return [(number, self._second(first, reports))]
        if self._alone or not self._most or not any(report.failed for report in reports):
            return [(number, reports)]
        self._first[number] = reports
        if len(self._first) <= self._most:
            return []
        self._most = 0
        return self.left()

    def left(self) -> list[tuple[int, list[pytest.TestReport]]]:
        """The failures that were not tried again."""
        left, self._first = sorted(self._first.items()), {}
        return left

    def _second(self, first: list[pytest.TestReport], second: list[pytest.TestReport]) -> list[pytest.TestReport]:
        text = "\n".join(_text(report) for report in first if report.failed)
        if all(report.passed for report in second):
            self.passed.append((first[0].nodeid, text))
            return second
        failed = [report for report in second if report.failed]
        if not failed:  # it was skipped, which says nothing about the first failure
            return first
        failed[0].sections.append(("the first failure, beside other tests", text))
        return second


def _text(report: pytest.TestReport) -> str:
    return "\n".join([report.longreprtext, *(f"--- {title} ---\n{content}" for title, content in report.sections)])


class Runs:
    """A fork: it runs what it is given until there is no more, or until the process that gives is gone."""

    def __init__(self, session: pytest.Session, pipe: Connection, number: int) -> None:
        self._session = session
        self._config = session.config
        self._pipe = pipe
        self._number = number
        self._reports: list[dict[str, Any]] = []

    def until_told(self) -> None:
        """Never returns: what this process was before it was forked does not end twice."""
        code = 1
        atexit._clear()
        shared.forked()
        try:
            self._settle()
            self._run()
            code = 0
        except (EOFError, ConnectionError):
            code = 0  # the run was stopped
        finally:
            try:
                self._session._setupstate.teardown_exact(None)
                atexit._run_exitfuncs()
            finally:
                os._exit(code)

    def _settle(self) -> None:
        """A place of its own for files, and for what the tests print."""
        plugins = self._config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self, "runs")
        capture = plugins.getplugin("capturemanager")
        assert capture is not None
        capture.stop_global_capturing()
        capture.start_global_capturing()
        factory = self._config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"f{self._number}"
        factory._basetemp.mkdir(mode=0o700)

    def _run(self) -> None:
        items = self._session.items
        current = self._pipe.recv()
        while current is not None:
            following = self._pipe.recv()
            nextitem = None if following is None else items[following]
            self._config.hook.pytest_runtest_protocol(item=items[current], nextitem=nextitem)
            self._pipe.send(self._reports)
            self._reports = []
            current = following

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="N", help="load the tests once, then run them in N processes")
    again = "with --forks: tests that fail beside others run once more, alone, unless they are more than N; what passes then is told"
    parser.addoption("--again", type=int, default=0, metavar="N", help=again)


def choose(config: pytest.Config) -> None:
    """More than one process only when told so."""
    if amount := config.getoption("--forks"):
        again = 0 if config.getoption("maxfail") else config.getoption("--again")  # a run that stops at a failure does not wait for another
        config.pluginmanager.register(Forks(config, amount, again), "forks")
