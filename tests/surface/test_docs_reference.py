"""The reference of the Python API has every public name, says what the docstrings say, and its examples run."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drawings import reference
from tests.drawings.public_names import TWINS, importable, methods, needed, parts, public, verb_owners
from tests.drawings.returned_types import returned_types

ROOT = reference.ROOT
WRITTEN = reference.written()
SHOWN = [name for page in reference.PAGES for names, _ in reference.examples(page)[1] for name in names]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_a_page_says_what_the_docstrings_and_the_examples_say(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == WRITTEN[path], "make docs"


def test_every_public_name_has_an_entry_with_an_example() -> None:
    assert sorted(needed() - set(SHOWN)) == []


def test_no_name_has_two_entries() -> None:
    assert sorted(SHOWN) == sorted(set(SHOWN))


def test_every_public_name_has_a_docstring() -> None:
    names = {title: name.value for title, name in public().items()}
    owners = verb_owners() | {title: names[title] for title in TWINS.values()}
    verbs = {f"{title}.{verb}": method for title, owner in owners.items() for verb, method in methods(owner).items()}
    listed = {name: value for name, value in parts().items() if isinstance(value, type)} | {
        kind.__name__: kind for kind in returned_types()
    }
    assert [title for title, value in (names | verbs | listed).items() if not inspect.getdoc(value)] == []


def test_the_entries_of_a_class_have_every_method_of_its_twin() -> None:
    names = {title: name.value for title, name in public().items()}
    for title, twin in TWINS.items():
        assert sorted(methods(names[twin]).keys() - methods(names[title]).keys()) == []


def test_every_import_in_the_docs_and_examples_is_of_a_public_name() -> None:
    known, found = importable(), list(_imports())
    assert len(found) > 200
    assert [f"{path}: {module} {name}".strip() for path, module, name in found if (module, name) not in known] == []


def _imports() -> Iterator[tuple[str, str, str]]:
    """Each import from Holdfast, with its file: in programs of examples, and in the blocks of Python on the pages."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.py"))]:
        text = path.read_text(encoding="utf-8")
        for code in [text] if path.suffix == ".py" else re.findall(r"^ *```python\n(.*?)^ *```", text, flags=re.M | re.S):
            for node in _nodes(textwrap.dedent(code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "holdfast":
                    yield from ((str(path.relative_to(ROOT)), node.module or "", alias.name) for alias in node.names)
                elif isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "holdfast"]
                    yield from ((str(path.relative_to(ROOT)), name, "") for name in names)


def _nodes(code: str) -> Iterator[ast.AST]:
    """The nodes of a program; of its imports only, if a page shows signatures that are no whole program."""
    try:
        yield from ast.walk(ast.parse(code))
    except SyntaxError:
        for line in re.findall(r"^(?:from|import) .*", code, flags=re.M):
            yield from ast.walk(ast.parse(line))


def test_every_example_uses_the_names_it_is_for() -> None:
    missing = []
    for page in reference.PAGES:
        for names, code in reference.examples(page)[1]:
            missing += [name for name in names if name.rpartition(".")[2] not in code]
    assert missing == []


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_examples_of_a_page_run(page: str) -> None:
    runpy.run_path(str(reference.EXAMPLES / f"{page}.py"))


def test_the_page_lists_no_name_that_is_private() -> None:
    assert [name for name in SHOWN if any(part.startswith("_") for part in name.split("."))] == []


def test_a_page_that_differs_from_a_docstring_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import holdfast

    monkeypatch.setattr(holdfast.MapConfig, "__doc__", "Something else.")
    changed = [path.name for path, text in reference.written().items() if text != WRITTEN[path]]
    assert changed == ["configuration.md"]
