"""What each test costs in CPU seconds, its child processes included: by folder, and the dearest ones. `pytest --costs` prints it."""

import os
from collections import defaultdict
from collections.abc import Generator

import pytest

DEAREST = 30
CHEAP = 0.1


_elsewhere = 0.0


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def spent_elsewhere(seconds: float) -> None:
    """A process that many tests share tells what it used for the one that runs: the system counts it only when that process ends."""
    global _elsewhere
    _elsewhere += seconds


class Costs:
    """Measures every test of this process, and collects what the reports of all processes carry."""

    def __init__(self) -> None:
        self._began = 0.0
        self._told = 0.0
        self._elsewhere = 0.0
        self._of: dict[str, tuple[float, float]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._began = _cpu() + _elsewhere

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties.append(("cpu", (_cpu() + _elsewhere - self._began, _elsewhere - self._told)))
        self._told = _elsewhere
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        taken: tuple[float, float] = next((value for name, value in report.user_properties if name == "cpu"), (0.0, 0.0))  # type: ignore[assignment]
        used, elsewhere = taken
        cpu, seconds = self._of.get(report.nodeid, (0.0, 0.0))
        self._of[report.nodeid] = (max(cpu, used), seconds + report.duration)
        self._elsewhere += elsewhere

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say = terminalreporter.write_line
        folders: defaultdict[str, list[float]] = defaultdict(list)
        for name, (cpu, _) in self._of.items():
            folders[name.partition("::")[0].rpartition("/")[0]].append(cpu)
        in_tests = sum(cpu for cpu, _ in self._of.values())
        # Of processes that are still alive only what they told is in it, and Postgres tells nothing.
        spent = _cpu() + self._elsewhere
        say(f"CPU seconds: {spent:.0f}, of which {in_tests:.0f} in {len(self._of)} tests, the others to load them")
        for folder, cpus in sorted(folders.items(), key=lambda pair: -sum(pair[1])):
            say(f"{sum(cpus):9.1f}  {folder} ({len(cpus)} tests)")
        say(f"the {DEAREST} dearest tests (CPU seconds, seconds)")
        for name, (cpu, seconds) in sorted(self._of.items(), key=lambda pair: -pair[1][0])[:DEAREST]:
            if cpu >= CHEAP:
                say(f"{cpu:9.1f} {seconds:7.1f}  {name}")
        if path := os.environ.get("HOLDFAST_COSTS"):
            with open(path, "w") as out:
                out.writelines(f"{cpu:.3f}\t{seconds:.3f}\t{name}\n" for name, (cpu, seconds) in self._of.items())


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="print CPU seconds by folder, and the dearest tests")


def watch(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs(), "costs")
