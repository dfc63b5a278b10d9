"""The glossary names things that exist, and the page of the architecture has the layers that import-linter keeps."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import tomllib

import pytest

from tests.conftest import ROOT

ROW = re.compile(r"^\| (?P<word>[^|`]+?) \| (?P<meaning>[^|]+?) \| `(?P<code>holdfast\.[\w.]+)` \|$", re.M)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
PRODUCT = ROOT / "src" / "holdfast"
ARCHITECTURE = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")


def exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to a name in one; a field counts."""
    module, _, last = name.rpartition(".")
    try:
        importlib.import_module(name)
        return True
    except ModuleNotFoundError:
        pass
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        outer, _, cls = module.rpartition(".")
        if not exists(module):
            return False
        owner = getattr(importlib.import_module(outer), cls)
    return hasattr(owner, last)


@pytest.mark.parametrize("word, code", [(row["word"], row["code"]) for row in ROW.finditer(GLOSSARY)])
def test_a_word_of_the_glossary_has_its_name_in_the_code(word: str, code: str) -> None:
    assert exists(code), f"{word}: {code}"


def test_every_row_of_the_glossary_was_read() -> None:
    lines = [line for line in GLOSSARY.partition("## People")[0].splitlines() if line.startswith("| ") and "in code" not in line]
    assert len(lines) == len(list(ROW.finditer(GLOSSARY)))


def test_no_word_stands_twice() -> None:
    words = [row["word"] for row in ROW.finditer(GLOSSARY)]
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(
    "name", ["holdfast.model.nowhere", "holdfast.model.execution.Nothing", "holdfast.model.execution.Execution.nothing"]
)
def test_a_name_that_does_not_exist_is_found_out(name: str) -> None:
    assert not exists(name)


def layers() -> list[list[tuple[str, bool]]]:
    """The layers of import-linter's contract: each package, and whether it is built."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["id"] == "layers"]
    return [[(name.strip().strip("()"), "(" not in name) for name in layer.split("|")] for layer in contract["layers"]]


def test_the_page_of_the_architecture_has_the_layers_of_the_linter() -> None:
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", ARCHITECTURE, re.M)
    told = [[(name, not later) for name, later in re.findall(r"`(\w+)`( \(to come\))?", packages)] for _, packages in rows]
    assert told == layers()
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))


def test_the_arrows_of_the_architecture_are_the_imports() -> None:
    chains = [re.split(r" --> ", line.strip()) for line in re.findall(r"^    \w+ --> .+$", ARCHITECTURE, re.M)]
    told = {(left, right) for chain in chains for left, rights in itertools.pairwise(chain) for right in rights.split(" & ")}
    real = _imports_of_packages()
    assert told == {(left, right) for left in real for right in real[left] if not _by_a_detour(real, left, right)}


def _imports_of_packages() -> dict[str, set[str]]:
    """Each package of the product, with the other packages that its modules import."""
    found: dict[str, set[str]] = {}
    for path in PRODUCT.glob("*/**/*.py"):
        package = path.relative_to(PRODUCT).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast."):
                found.setdefault(package, set()).add((node.module or "").split(".")[1])
    return {package: others - {package} for package, others in found.items()}


def _by_a_detour(imports: dict[str, set[str]], left: str, right: str) -> bool:
    """Whether a way over other packages leads from one package to another."""
    reached, todo = set[str](), imports[left] - {right}
    while todo:
        reached |= todo
        todo = {after for package in todo for after in imports.get(package, ())} - reached
    return right in reached


def test_contributing_has_the_same_order() -> None:
    (line,) = re.findall(r"^cli > .+$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    assert [layer.split(" | ") for layer in line.split(" > ")] == [[name for name, _ in layer] for layer in layers()]


def test_files_that_the_pages_on_internals_name_exist() -> None:
    pages = {page.name: page.read_text() for page in (ROOT / "docs" / "internals").glob("*.md")}
    named = {(page, name) for page, text in pages.items() for name in re.findall(r"(?<![\w/.-])(?:[a-z_]+/)+[a-z_]+\.py\b", text)}
    assert len(named) > 60
    here = [file.as_posix() for folder in ("src", "tests", "bench") for file in (ROOT / folder).rglob("*.py")]
    assert {(page, name) for page, name in named if not any(file.endswith(f"/{name}") for file in here)} == set()
