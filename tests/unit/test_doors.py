"""A house rule: what the `__init__` of a package says it may import is what its modules import. Else a reader believes an old drawing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.source_files import ROOT

PRODUCT = ROOT / "src" / "holdfast"
PACKAGES = sorted(path.name for path in PRODUCT.iterdir() if (path / "__init__.py").is_file())
NAMED = re.compile(rf"\b(?:holdfast\.)?((?:{'|'.join(PACKAGES)})\b(?:\.\w+)*)")
BELOW = re.compile(r"\bbelow\b|what workers may import")
"""Words that allow every package of a lower layer; import-linter checks that it is lower."""
BESIDE = re.compile(r"other modules|leaf modules|every room")
"""Words that allow every module of the package in which a sub-package stands."""


def may_import(door: str) -> str | None:
    """What a package's docstring says it may import; None if it says nothing."""
    found = re.search(r"May import:(.*?)(?=\bStart reading|\bUsers import|\n\n|\Z)", door, flags=re.S)
    return None if found is None else " ".join(found[1].split())


def untrue(door: str, package: str, imported: set[str]) -> list[str]:
    """The imports of a package that its docstring does not allow. Names are without `holdfast.`: `store.seam`."""
    told = may_import(door)
    if told is None:
        return []
    allowed, top = set(NAMED.findall(re.sub(r"\b(?:below|room of) [\w.]+", "", told))), package.partition(".")[0]

    def is_told(name: str) -> bool:
        if any(f"{name}.".startswith(f"{each}.") for each in allowed):
            return True
        return bool(BESIDE.search(told) if name.partition(".")[0] == top else BELOW.search(told))

    return sorted(name for name in imported if not is_told(name))


def imports_of(folder: Path) -> set[str]:
    """The modules of Holdfast outside this package that its modules import."""
    package = ".".join(folder.relative_to(PRODUCT).parts)
    return {name for path in folder.rglob("*.py") for name in _imports(path) if not f"{name}.".startswith(f"{package}.")}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast."):
            name = (node.module or "").removeprefix("holdfast.")
            for alias in node.names:  # a module, as in `from holdfast.store import rows`, or a name of the module
                module = PRODUCT.joinpath(*name.split("."), f"{alias.name}.py")
                yield f"{name}.{alias.name}" if module.is_file() else name


DOORS = {".".join(path.parent.relative_to(PRODUCT).parts): path for path in sorted(PRODUCT.glob("*/**/__init__.py"))}


@pytest.mark.parametrize("package", DOORS)
def test_a_package_imports_only_what_its_docstring_says(package: str) -> None:
    door = ast.get_docstring(ast.parse(DOORS[package].read_text(encoding="utf-8"))) or ""
    assert untrue(door, package, imports_of(DOORS[package].parent)) == []


def test_every_layer_says_what_it_may_import() -> None:
    assert [name for name in PACKAGES if may_import((PRODUCT / name / "__init__.py").read_text(encoding="utf-8")) is None] == []


@pytest.mark.parametrize(
    "door, package, imported, wrong",
    [
        ("May import: holdfast.store.seam, holdfast.model.", "engine", {"store.seam", "store.rows", "model.ids"}, ["store.rows"]),
        ("May import: everything below it.", "cli", {"web.app", "model.ids"}, []),
        ("May import: service.runtimes, and packages below service.", "service.open_engine", {"service.runtimes.a", "store.seam"}, []),
        ("May import: packages below service.", "service.runtimes", {"service.settings"}, ["service.settings"]),
        ("May import: nothing of Holdfast's.", "model", {"files.private"}, ["files.private"]),
        ("Belongs: everything.", "model", {"files.private"}, []),
    ],
)
def test_an_import_that_the_docstring_does_not_name_is_found(door: str, package: str, imported: set[str], wrong: list[str]) -> None:
    assert untrue(door, package, imported) == wrong
