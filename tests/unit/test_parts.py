"""The quick part and the rest share the tests between them: nothing is left out of both, and what is left out is said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.parts import one_of_each

FEW_TESTS = """
import pytest
from hypothesis import given, settings, strategies
from tests import parts

ran = []

def test_plain(): ...

@pytest.mark.long
def test_long(): ...

@pytest.mark.parametrize("case", parts.one_of_each(["a1", "a2", "b1"], kind=lambda case: case[0]))
def test_case(case): ...

@settings(max_examples=parts.examples(200))
@given(strategies.integers())
def test_property(number):
    ran.append(number)

def test_amount():
    print("examples", len(ran))
"""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: later\n")
    (folder / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_configure\n")
    (folder / "test_few.py").write_text(FEW_TESTS)
    return folder


def ran(folder: Path, *arguments: str) -> tuple[set[str], str]:
    """The tests that ran, and all that was printed."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments]
    told = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True, env={"PYTHONPATH": str(ROOT)}).stdout
    return set(re.findall(r"^PASSED test_few.py::(\S+)", told, re.M)), told


def examples(told: str) -> int:
    return int(re.findall(r"examples (\d+)", told)[0])


def test_every_test_is_in_a_part_and_the_run_says_what_it_left_out(few: Path) -> None:
    """The quick part also shows that forks tell all that they ran, and its costs."""
    quick, told = ran(few, "--forks", "1", "--costs")
    assert quick == {"test_plain", "test_case[a1]", "test_case[b1]", "test_property", "test_amount"}
    assert "left out: 2 long tests, and most examples of 1 property tests" in told
    assert re.search(r"CPU seconds: \d+, of which \d+ in 5 tests", told)
    few_examples = examples(told)

    rest, told = ran(few, "--rest")
    assert rest == {"test_long", "test_case[a2]", "test_property"}
    assert "left out: 4 quick tests" in told

    everything, told = ran(few, "--all")
    assert everything == quick | rest
    assert "left out" not in told
    assert few_examples < 20 < 200 <= examples(told)


def test_a_long_test_that_is_named_runs(few: Path) -> None:
    assert ran(few, "test_few.py::test_long")[0] == {"test_long"}


def test_the_first_of_each_kind_is_quick() -> None:
    marked = {str(case.id): bool(case.marks) for case in one_of_each(range(6), kind=lambda n: n % 3, name=lambda n: f"n{n}")}
    assert marked == {"n0": False, "n1": False, "n2": False, "n3": True, "n4": True, "n5": True}
