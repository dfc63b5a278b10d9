"""docs/promises.md tells the truth: each promise names a test that exists, or says `missing`."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.source_files import ROOT

ROW = re.compile(r"^\| *(?P<number>[\d.]+) *\| *(?P<promise>.+?) *\| *(?P<test>.*?) *\|$")
NAMED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Promise:
    number: str
    promise: str
    test: str

    @property
    def names(self) -> list[str]:
        """`tests/x/test_y.py::test_z`, as pytest takes it; several are separated by spaces or commas."""
        return NAMED.findall(self.test) if self.test != "missing" else []


def promises(page: str) -> list[Promise]:
    return [Promise(**match.groupdict()) for line in page.splitlines() if (match := ROW.match(line))]


def problem(promise: Promise, root: Path) -> str | None:
    """Why this row is not true, or None."""
    if promise.test != "missing" and not promise.names:
        return "names no test and does not say `missing`"
    if unknown := [name for name in promise.names if not exists(name, root)]:
        return f"names a test that does not exist: {unknown}"
    return None


def exists(name: str, root: Path) -> bool:
    file, *inner = name.split("::")
    path = root / file
    return bool(inner) and path.is_file() and "::".join(inner) in set(_tests(ast.parse(path.read_text(encoding="utf-8")).body))


def _tests(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _tests(node.body, f"{prefix}{node.name}::")


PROMISES = promises((ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.number for promise in PROMISES])
def test_a_promise_names_a_test_that_exists(promise: Promise) -> None:
    assert problem(promise, ROOT) is None


def test_every_line_of_the_table_was_read() -> None:
    """A row with a typing error in it would otherwise promise nothing and fail nothing."""
    lines = [line for line in (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    headings = [line for line in lines if re.match(r"\| *#|\|[-: |]+$", line)]
    assert len(PROMISES) == len(lines) - len(headings)
    assert len(PROMISES) >= 60


def test_no_two_promises_share_a_number() -> None:
    numbers = [promise.number for promise in PROMISES]
    assert sorted(set(numbers)) == sorted(numbers)


@pytest.mark.parametrize(
    "test, why",
    [
        ("missing", None),
        ("`tests/test_a.py::test_it`", None),
        ("`tests/test_a.py::TestThem::test_one`, `tests/test_a.py::test_it`", None),
        ("", "names no test"),
        ("see the docs", "names no test"),
        ("`tests/test_a.py::test_gone`", "does not exist"),
        ("`tests/test_gone.py::test_it`", "does not exist"),
        ("`tests/test_a.py`", "does not exist"),
        ("`tests/test_a.py::test_it` `tests/test_a.py::test_gone`", "does not exist"),
    ],
)
def test_a_false_row_is_noticed(test: str, why: str | None, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("async def test_it(): ...\nclass TestThem:\n    def test_one(self): ...\n")
    (row,) = promises(f"| 1.2 | it holds | {test} |")
    found = problem(row, tmp_path)
    assert (found is None) if why is None else (found is not None and why in found)
