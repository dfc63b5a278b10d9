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

BUSY = """
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def first(name):
    \"\"\"Whether it is the first try.\"\"\"
    known = (HERE / name).exists()
    (HERE / name).touch()
    return not known


@pytest.fixture
def unready():
    assert not first("unready"), "not set up"


@pytest.mark.parametrize("number", range(6))
def test_right(number):
    pass


def test_busy():
    print("printed in the", "first" if first("busy") else "second", "try")
    assert (HERE / "alone").exists(), "the machine is busy"


def test_that_is_set_up_late(unready):
    pass


def test_that_kills_its_process_once():
    import os
    if first("killed"):
        os.kill(os.getpid(), 9)


def test_wrong():
    word = "beside" if first("wrong") else "alone"
    raise ValueError(f"wrong {word}")


def test_skipped():
    if not first("skipped"):
        pytest.skip("no wish")
    raise ValueError("wrong, then skipped")


@pytest.mark.alone
def test_alone():
    (HERE / "alone").touch()


@pytest.mark.alone
def test_last():
    assert not first("last"), "wrong where nothing runs beside it"
"""
TRIED_AGAIN = 5
"""Tests of BUSY that fail beside others."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("forks"), TESTS)


def filled(folder: Path, tests: str) -> Path:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: later\n    alone: at last\n")
    (folder / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_configure\n")
    (folder / "test_forked.py").write_text(tests)
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


def ends(told: str) -> dict[str, str]:
    """How each test ended; each is told once."""
    found = re.findall(r"^(PASSED|FAILED|ERROR) test_forked\.py::(\S+)", told, re.M)
    assert len(found) == len({name for _, name in found})
    return {name: end for end, name in found if not name.startswith("test_right")}


def test_what_fails_beside_others_and_passes_alone_is_told_with_its_first_failure(tmp_path: Path) -> None:
    told = run(filled(tmp_path, BUSY), "--forks", "2", "--again", str(TRIED_AGAIN))
    assert ends(told) == {
        "test_busy": "PASSED",
        "test_that_is_set_up_late": "PASSED",
        "test_that_kills_its_process_once": "PASSED",
        "test_wrong": "FAILED",
        "test_skipped": "FAILED",
        "test_alone": "PASSED",
        "test_last": "FAILED",
    }
    _, _, section = told.partition("= passed only when it ran alone =")
    names = re.findall(r"^_+ test_forked\.py::(\S+) _+$", section, re.M)
    assert names == ["test_busy", "test_that_is_set_up_late", "test_that_kills_its_process_once"]
    for first in ("AssertionError: the machine is busy", "printed in the first try", "AssertionError: not set up", "its process: signal 9"):
        assert first in section


def test_what_fails_beside_others_and_alone_is_a_failure_with_both_texts(tmp_path: Path) -> None:
    told = run(filled(tmp_path, BUSY), "--forks", "2", "--again", str(TRIED_AGAIN), "-k", "wrong")
    assert ends(told) == {"test_wrong": "FAILED"}
    assert "passed only when it ran alone" not in told
    second, _, first = told.partition("the first failure, beside other tests")
    assert "ValueError: wrong alone" in second
    assert "ValueError: wrong beside" in first


def test_a_run_whose_only_failures_pass_alone_is_green(tmp_path: Path) -> None:
    told = run(filled(tmp_path, BUSY), "--forks", "2", "--again", "1", "-k", "busy or test_alone or right")
    assert re.search(r"^=+ 8 passed, \d+ deselected in", told, re.M)
    assert "= passed only when it ran alone =" in told


@pytest.mark.parametrize(
    "more", [["--again", str(TRIED_AGAIN - 1)], [], ["--again", "8", "--maxfail", "99"]], ids=["more", "none", "maxfail"]
)
def test_nothing_is_tried_again_when_more_fail_or_nobody_asks_for_it_or_the_run_stops_at_failures(tmp_path: Path, more: list[str]) -> None:
    told = run(filled(tmp_path, BUSY), "--forks", "2", *more)
    wrong = [name for name, end in ends(told).items() if end != "PASSED"]
    assert len(wrong) == TRIED_AGAIN + 1
    assert "passed only when it ran alone" not in told
    assert "printed in the second try" not in told
