"""The project around the code does what its pages say."""

import ast
import functools
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.source_files import ROOT, SRC

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@functools.cache
def _dry(word: str) -> str:
    """What `make word` would run, also if `make` with a choice of tests (ARGS) runs this test. Which pip would install is not asked for: to
    find it out takes a second each time."""
    return subprocess.run(["make", "-n", word, "PIP=pip", "ARGS="], cwd=ROOT, capture_output=True, check=True, text=True).stdout


def test_make_help_lists_every_word() -> None:
    listed = re.findall(
        r"^make ([\w-]+) ", subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, check=True, text=True).stdout, re.M
    )
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert phony is not None
    assert listed == phony.group(1).split()
    assert {"help", "setup", "check", "test", "demo", "bench"} <= set(listed)


@pytest.mark.parametrize(
    "tool",
    [
        *("ruff format --check", "ruff check", "mypy --strict", "lint-imports"),
        "check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml",
        *("pytest tests/unit/test_house_rules.py", "tests/unit/test_doors.py", "tests/unit/test_plain_words.py"),
        "tests/unit/test_promises.py",
    ],
)
def test_make_check_runs_every_tool(tool: str) -> None:
    assert tool in _dry("check")


@pytest.mark.parametrize("folder", ["src", "tests", "bench"])
def test_types_are_checked_everywhere(folder: str) -> None:
    (line,) = [line for line in _dry("check").splitlines() if "mypy" in line]
    assert folder in line.split()


def test_ci_checks_and_runs_every_test_once() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    words = [line.partition(" ||")[0] for line in lines if line.startswith("make ")]
    assert words == ["make setup", "make browser", "make check", "make test", "make rest"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, "it is run, not read"


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert sections[0] == "[Unreleased]"
    assert [name for name in sections[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name)] == []


def test_the_reading_path_exists() -> None:
    """A newcomer who meets a missing file at step three does not come back."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    path = re.findall(r"^\d+\. `([^`]+)`:", page, re.M)
    assert len(path) >= 6
    assert [name for name in path if not (ROOT / name).exists()] == []


def test_links_between_our_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(
            r"\]\((?!\w+:|#)([^)#]+)", re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        )
        if not (page.parent / target).exists()
    ]
    assert broken == []


_OTHER_TIME = frozenset({"crash", "library", "sandbox", "simulation", "tools", "workers"})
"""Folders whose sleeps are no luck: they measure real time, or the loop of the simulation makes the time."""


def test_no_test_sleeps_to_synchronise() -> None:
    """A sleep is too long on a fast machine and too short on a slow one. `asyncio.sleep(0)` gives the loop a turn and is no sleep."""
    assert [found for path in sorted((ROOT / "tests").rglob("*.py")) for found in _sleeps(path)] == []


def _sleeps(path: Path) -> Iterator[str]:
    """Every sleep but `sleep(0)`. Crash tests kill at random moments, which they compute: there only a written-down time counts.

    So it is where real processes are watched and real time is what is tested: such a time has a name. Bodies may do what they like.
    """
    text = path.read_text(encoding="utf-8")
    if "bodies" in path.parts or "sleep" not in text:
        return
    computed_is_fine = not _OTHER_TIME.isdisjoint(path.parts)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module="time" | "asyncio", names=names) if any(alias.name == "sleep" for alias in names):
                yield f"{path.name}:{node.lineno}: import the module, so that a sleep is seen"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio"), attr="sleep"), args=[seconds, *_]):
                written = isinstance(seconds, ast.Constant)
                if not (written and ast.literal_eval(seconds) == 0) and (written or not computed_is_fine):
                    yield f"{path.name}:{node.lineno}"
            case _:
                pass


@pytest.mark.parametrize(
    "folder, code, caught",
    [
        ("flow", "import asyncio\nasyncio.sleep(0)", False),
        ("flow", "import asyncio\nasyncio.sleep(0.1)", True),
        ("flow", "import time\ntime.sleep(delay)", True),
        ("flow", "from asyncio import sleep", True),
        ("crash", "import time\ntime.sleep(moment)", False),
        ("crash", "import time\ntime.sleep(1)", True),
    ],
)
def test_a_sleep_is_noticed(folder: str, code: str, caught: bool, tmp_path: Path) -> None:
    path = tmp_path / folder / "test_x.py"
    path.parent.mkdir()
    path.write_text(code)
    assert bool(list(_sleeps(path))) is caught


def test_the_import_layers_hold() -> None:
    """The same judge as in `make check`, so that the promise has a test with a name."""
    judged = subprocess.run([Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, check=False, text=True)
    assert judged.returncode == 0, judged.stdout + judged.stderr


KEPT = {".sql", ".py", ".typed", ".md", ".json", ".jsonl", ".toml", ".txt"}


def test_the_wheel_has_the_sql_and_the_type_marker(tmp_path: Path) -> None:
    """An editable install reads the tree, so only a real wheel shows a file left out."""
    build = "import os, sys; from hatchling.build import build_wheel; os.chdir(sys.argv[1]); print(build_wheel(sys.argv[2]))"
    built = subprocess.run([sys.executable, "-c", build, str(ROOT), str(tmp_path)], capture_output=True, check=True, text=True).stdout
    with zipfile.ZipFile(tmp_path / built.split()[-1]) as wheel:
        packed = set(wheel.namelist())
    wanted = {f"holdfast/{path.relative_to(SRC).as_posix()}" for path in SRC.rglob("*") if path.suffix in KEPT}
    assert wanted - packed == set()
    assert "holdfast/py.typed" in packed
    assert {name.split("/")[0] for name in packed if not name.startswith("holdfast-")} == {"holdfast"}, "tests and benches stay at home"


def _runs(word: str) -> list[str]:
    """The runs of pytest that a word starts, in their order."""
    return [run for line in _dry(word).splitlines() for run in re.findall(r"\S*/pytest [^&|]+", line)]


@pytest.mark.parametrize("word, part", [("test", ""), ("rest", "--rest")])
def test_one_run_has_a_part_and_leaves_no_folder_out(word: str, part: str) -> None:
    """It names no folder. It prints what each folder costs, so that growth is seen."""
    (run,) = _runs(word)
    assert re.findall(r"--rest|--all", run) == ([part] if part else [])
    assert not re.search(r"tests/| -m | -k ", run)
    assert "--costs" in run


def test_make_test_all_is_both_parts() -> None:
    assert _runs("test-all") == _runs("test") + _runs("rest")


def test_make_pythons_tests_the_versions_that_the_package_and_the_workflow_name() -> None:
    supported = re.findall(r"^SUPPORTED := (.*)$", MAKEFILE, re.M)[0].split()
    assert re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8")) == supported
    assert re.findall(r'"(3\.\d+)"', (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")) == supported
