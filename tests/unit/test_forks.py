"""A run in several processes tells what a run in one would tell, whatever its tests do to their process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

TESTS = """
import os
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def place():
    yield HERE
    (HERE / f"ended-{os.getpid()}").touch()


def meet(own, other):
    deadline = time.monotonic() + 20
    own.touch()
    while not other.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_meets_the_last(place):
    meet(place / "first", place / "last")


@pytest.mark.parametrize("number", range(20))
def test_many(number, place, tmp_path):
    print("printed by", number)
    (place / f"ran-{number}-in-{os.getpid()}").touch()
    (tmp_path / "own").touch()
    assert number != 13


def test_kills_its_process():
    os.kill(os.getpid(), 9)


def test_leaves_its_process():
    os._exit(3)


def test_meets_the_first(place):
    meet(place / "last", place / "first")


@pytest.mark.alone
def test_alone():
    before = {name for name in os.listdir(HERE) if name.startswith("ran-")}
    assert len(before) == 20
    assert not any(Path("/proc", name.rpartition("-")[2]).exists() for name in before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forks")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: later\n    alone: at last\n")
    (folder / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_configure\n")
    (folder / "test_forked.py").write_text(TESTS)
    return folder


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True, env={"PYTHONPATH": str(ROOT)}).stdout


def test_every_test_is_told_once_whatever_it_does_to_its_process(folder: Path) -> None:
    told = run(folder, "--forks", "2")
    wrong = dict.fromkeys(["test_many[13]", "test_kills_its_process", "test_leaves_its_process"], "FAILED")
    right = dict.fromkeys([*(f"test_many[{n}]" for n in range(20)), "test_meets_the_first", "test_meets_the_last", "test_alone"], "PASSED")
    ends = re.findall(r"^(PASSED|FAILED) test_forked\.py::(\S+)", told, re.M)
    assert sorted(ends) == sorted((end, name) for name, end in {**right, **wrong}.items())
    assert "the test ended its process: signal 9" in told
    assert "the test ended its process: exit code 3" in told
    assert told.count("printed by 13\n") == 1
    ran = [name.split("-")[1:] for name in map(str, (path.name for path in folder.iterdir())) if name.startswith("ran-")]
    assert sorted(int(number) for number, *_ in ran) == list(range(20))


def test_a_run_stops_when_it_is_told_to(folder: Path) -> None:
    told = run(folder, "--forks", "2", "-x", "-k", "many")
    assert len(re.findall(r"^FAILED", told, re.M)) == 1
    assert "stopping after 1 failures" in told
