"""tests/promises.md tells the truth: each promise names a test that exists, or says `missing`, and tests of both stores if it says so."""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.source_files import ROOT

ROW = re.compile(r"^\| *(?P<id>[a-z]+\.\d+) *\| *(?P<promise>.+?) *\| *(?P<test>.*?) *\|$")
NAMED = re.compile(r"`([^`]+)`")
BOTH = re.compile(r"both stores|SQLite and Postgres")
SUITE = re.compile(r"::Test(Sqlite|Postgres)::(\w+)")


@dataclass(frozen=True)
class Promise:
    id: str
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
    if promise.names and BOTH.search(promise.promise):
        return _one_store(promise.names, root)
    return None


def _one_store(names: list[str], root: Path) -> str | None:
    """Why these tests do not show a promise on both stores, or None. Most tests use SQLite, so tests of Postgres are looked for."""
    suites = {match.groups() for name in names if (match := SUITE.search(name))}
    other = {"Sqlite": "Postgres", "Postgres": "Sqlite"}
    if alone := [test for store, test in suites if (other[store], test) not in suites]:
        return f"says both stores, and names the test of one: {alone}"
    if not any("ostgres" in text for name in names for text in (name, *_texts(name, root))):
        return "says both stores, and names no test of Postgres"
    return None


def _texts(name: str, root: Path) -> Iterator[str]:
    """The text of a test of a module, and of the fixtures and the tables of cases that it names."""
    file, *inner = name.split("::")
    module, conftest = _parsed(root / file), (root / file).with_name("conftest.py")
    for test in module.body:
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and [test.name] == inner:
            yield ast.unparse(test)
            marks = [node for mark in test.decorator_list for node in ast.walk(mark)]
            used = {each.arg for each in test.args.args} | {node.id for node in marks if isinstance(node, ast.Name)}
            used |= {str(node.value) for node in marks if isinstance(node, ast.Constant)}  # pytest.mark.usefixtures("kit_store")
            for place in (module, *([_parsed(conftest)] if conftest.is_file() else [])):
                yield from (text for each in sorted(used) if (text := _text(each, place, root)))


def _text(name: str, module: ast.Module, root: Path) -> str | None:
    """The text that defines a name in a module, or in the module of this project that it is imported from."""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and (path := _source(node.module, root)) is not None:
                    return _text(alias.name, _parsed(path), root)
        elif getattr(node, "name", None) == name or name in {ast.unparse(each) for each in _targets(node)}:
            return ast.unparse(node)
    return None


def _targets(node: ast.stmt) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []


def exists(name: str, root: Path) -> bool:
    file, *inner = name.split("::")
    path = root / file
    if not inner or not path.is_file():
        return False
    return "::".join(inner) in _tests_of(path, root)


@functools.cache
def _tests_of(path: Path, root: Path) -> frozenset[str]:
    module = _parsed(path)
    return frozenset(_tests(module.body, module, root))


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _tests(body: list[ast.stmt], module: ast.Module, root: Path, prefix: str = "") -> Iterator[str]:
    """The tests of a module or class, with those that its classes inherit."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            for mine, where in _lineage(node, module, root):
                yield from _tests(mine.body, where, root, f"{prefix}{node.name}::")


def _lineage(node: ast.ClassDef, module: ast.Module, root: Path) -> Iterator[tuple[ast.ClassDef, ast.Module]]:
    """A class and all it inherits from, each with the module it stands in; what is not ours has no tests of ours."""
    yield node, module
    for base in node.bases:
        if isinstance(base, ast.Name) and (found := _class(base.id, module, root)) is not None:
            yield from _lineage(*found, root)


def _class(name: str, module: ast.Module, root: Path) -> tuple[ast.ClassDef, ast.Module] | None:
    """The class that a module knows by this name: its own, or one it imports from a module of this project."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node, module
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and (path := _source(node.module, root)) is not None:
                    return _class(alias.name, _parsed(path), root)
    return None


def _source(module: str, root: Path) -> Path | None:
    place = module.replace(".", "/")
    paths = [root / folder / f"{place}{end}" for folder in ("", "src") for end in (".py", "/__init__.py")]
    return next((path for path in paths if path.is_file()), None)


PAGE = (ROOT / "tests" / "promises.md").read_text(encoding="utf-8")
PROMISES = promises(PAGE)


def test_a_promise_names_a_test_that_exists() -> None:
    assert {promise.id: why for promise in PROMISES if (why := problem(promise, ROOT))} == {}


def test_every_line_of_the_table_was_read() -> None:
    """A row with a typing error in it would otherwise promise nothing and fail nothing."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    headings = [line for line in lines if re.match(r"\| id |\|[-: |]+$", line)]
    assert len(PROMISES) == len(lines) - len(headings)
    assert len(PROMISES) >= 300


def test_no_two_promises_share_an_id() -> None:
    ids = [promise.id for promise in PROMISES]
    assert sorted(set(ids)) == sorted(ids)


def test_each_section_is_one_capability() -> None:
    """The first word of an id says where the row stands, so that a reader finds it."""
    sections = [{promise.id.split(".")[0] for promise in promises(section)} for section in PAGE.split("\n## ")[1:]]
    assert [len(names) for names in sections] == [1] * len(sections)
    assert len(set.union(*sections)) == len(sections)


@pytest.mark.parametrize(
    "test, why",
    [
        ("missing", None),
        ("`tests/test_a.py::test_it`", None),
        ("`tests/test_a.py::TestThem::test_one`, `tests/test_a.py::test_it`", None),
        ("`tests/test_a.py::TestHeirs::test_one`, `tests/test_a.py::TestHeirs::test_lent`", None),
        ("`tests/test_a.py::TestHeirs::test_gone`", "does not exist"),
        ("`tests/test_a.py::TestThem::test_lent`", "does not exist"),
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
    (tmp_path / "tests" / "test_a.py").write_text(
        "from lent.door import Lent\nasync def test_it(): ...\n"
        "class TestThem:\n    def test_one(self): ...\nclass TestHeirs(TestThem, Lent): ...\n"
    )
    (tmp_path / "src" / "lent").mkdir(parents=True)
    (tmp_path / "src" / "lent" / "door.py").write_text("if True:\n    from lent.suite import Suite as Lent\n")
    (tmp_path / "src" / "lent" / "suite.py").write_text("class Suite(dict):\n    def test_lent(self): ...\n")
    (row,) = promises(f"| engine.2 | it holds | {test} |")
    found = problem(row, tmp_path)
    assert (found is None) if why is None else (found is not None and why in found)


@pytest.mark.parametrize(
    "test, why",
    [
        ("`tests/test_a.py::TestSqlite::test_one`", "names the test of one"),
        ("`tests/test_a.py::TestPostgres::test_one`", "names the test of one"),
        ("`tests/test_a.py::TestSqlite::test_one`, `tests/test_a.py::TestPostgres::test_one`", None),
        ("`tests/test_a.py::test_file`", "no test of Postgres"),
        ("`tests/test_a.py::test_cases`", None),
        ("`tests/test_a.py::test_fixture`, `tests/test_a.py::test_file`", None),
    ],
)
def test_a_row_about_both_stores_names_tests_of_both(test: str, why: str | None, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text("from tests.stores import store\n")
    (tmp_path / "tests" / "stores.py").write_text("@fixture(params=['sqlite', 'postgres'])\ndef store(request): ...\n")
    (tmp_path / "tests" / "test_a.py").write_text(
        "CASES = ['sqlite', 'postgres']\n@mark.parametrize('case', CASES)\ndef test_cases(case): ...\n"
        "@mark.usefixtures('store')\ndef test_fixture(): ...\ndef test_file(tmp_path): ...\n"
        "class TestSqlite:\n    def test_one(self): ...\nclass TestPostgres(TestSqlite): ...\n"
    )
    (row,) = promises(f"| engine.2 | it holds on both stores | {test} |")
    found = problem(row, tmp_path)
    assert (found is None) if why is None else (found is not None and why in found)
