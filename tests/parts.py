"""Which part of the tests runs: the quick ones (`make test`), what the quick ones leave out (`--rest`), or everything at once (`--all`).

A test or a case marked `long` is left to the rest. A property test runs in every part, with few examples in the quick one. A test that is
asked for by its full name (`path::test_name`) runs, whatever it is marked. Every run that leaves something out says so at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import pytest
from hypothesis import is_hypothesis_test, settings

Part = Literal["quick", "rest", "all"]
T = TypeVar("T")

ALONE = "alone"
FEW = 8
"""Examples of a property in the quick part, for every hundred of the whole."""

settings.register_profile("quick", max_examples=FEW, deadline=None, derandomize=True, database=None)
settings.register_profile("whole", max_examples=100, deadline=None)

_part: Part = "all"


def examples(whole: int) -> int:
    """How many examples a property test takes in this part, where a hundred is not the right amount: `max_examples=examples(400)`."""
    return max(FEW, whole * FEW // 100) if _part == "quick" else whole


def one_of_each(cases: Iterable[T], kind: Callable[[T], Hashable], *, name: Callable[[T], str] = str, several: bool = False) -> list[Any]:
    """All the cases for `parametrize`, in their order: the first of each kind is quick, the others are `long`.

    `several`: a case is a tuple of several arguments.
    """
    seen: set[Hashable] = set()
    params = []
    for case in cases:
        known = kind(case) in seen
        seen.add(kind(case))
        arguments = cast("tuple[Any, ...]", case) if several else (case,)
        params.append(pytest.param(*arguments, id=name(case), marks=[pytest.mark.long] if known else []))
    return params


class Parts:
    """Leaves out what belongs to the other part, and says at the end how much that was."""

    def __init__(self, config: pytest.Config, part: Part) -> None:
        self._config = config
        self._part = part
        self._named = any("::" in argument for argument in config.args)
        self._left = 0
        self._small = 0

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """To load every file takes longer than most of the few tests that run alone: a file that has one says so."""
        alone = self._config.getoption("markexpr") == ALONE and collection_path.name.startswith("test_") and collection_path.is_file()
        return True if alone and f"mark.{ALONE}" not in collection_path.read_text(encoding="utf-8") else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        left = [] if self._named else [item for item in items if not self._belongs(item)]
        if left:
            self._config.hook.pytest_deselected(items=left)
            out = set(left)
            items[:] = [item for item in items if item not in out]
        self._left = len(left)
        self._small = sum(map(_is_property, items)) if self._part == "quick" else 0

    def _belongs(self, item: pytest.Item) -> bool:
        long = item.get_closest_marker("long") is not None
        match self._part:
            case "quick":
                return not long
            case "rest":
                return long or _is_property(item)
            case "all":
                return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._part == "quick" and (self._left or self._small):
            terminalreporter.write_line(
                f"left out: {self._left} long tests, and most examples of {self._small} property tests. "
                "`make rest` runs them, or `pytest --all` with the same arguments."
            )
        if self._part == "rest" and self._left:
            terminalreporter.write_line(f"left out: {self._left} quick tests. `make test` runs them.")


def _is_property(item: pytest.Item) -> bool:
    return is_hypothesis_test(getattr(item, "obj", None))


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("parts")
    group.addoption("--all", dest="part", action="store_const", const="all", default="quick", help="also the tests marked `long`")
    group.addoption("--rest", dest="part", action="store_const", const="rest", help="only what a run without --all leaves out")


def choose(config: pytest.Config) -> None:
    """Before any test is loaded: some ask for their amounts when they are."""
    global _part
    _part = config.getoption("part")
    settings.load_profile("quick" if _part == "quick" else "whole")
    config.pluginmanager.register(Parts(config, _part), "parts")
