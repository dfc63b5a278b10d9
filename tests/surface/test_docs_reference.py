"""The reference of the Python API has every public name, says what the docstrings say, and its examples run."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drawings import reference
from tests.drawings.public_names import MIRRORS, TWINS, importable, methods, needed, parts, public, verb_owners
from tests.drawings.returned_types import returned_types

ROOT = reference.ROOT
WRITTEN = reference.written()
ALONE = [pytest.param(page, code, id=f"{page}-{names[0]}") for page in reference.PAGES for names, code in reference.examples(page)[1]]
SHOWN = [name for page in reference.PAGES for names, _ in reference.examples(page)[1] for name in names]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_a_page_says_what_the_docstrings_and_the_examples_say(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == WRITTEN[path], "make docs"


def test_every_public_name_has_an_entry_with_an_example() -> None:
    assert sorted(needed() - set(SHOWN)) == []


def test_every_type_that_a_verb_returns_has_an_entry_with_an_example() -> None:
    shown = [name for names, _ in reference.examples(reference.RESULTS)[1] for name in names]
    assert sorted(shown) == [kind.__name__ for kind in returned_types()]


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


def test_the_modules_of_durable_that_are_public_have_the_names_of_the_official_ones() -> None:
    official = [name.replace("holdfast.durable", "aws_durable_execution_sdk_python") for name in MIRRORS]
    assert [name for name in official if importlib.util.find_spec(name) is None] == []


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


@pytest.mark.parametrize("page, code", ALONE)
def test_an_example_runs_alone_after_the_beginning_of_its_page(page: str, code: str, tmp_path: Path) -> None:
    head, _ = reference.examples(page)
    program = _RaisesWhatItCatches().visit(ast.parse(f"{head}\n{code}\n"))
    (tmp_path / "example.py").write_text(ast.unparse(ast.fix_missing_locations(program)), encoding="utf-8")
    made = runpy.run_path(str(tmp_path / "example.py"))
    for name, end in (("client", "close"), ("folder", "cleanup")):  # a reader's program ends here
        if name in made and hasattr(made[name], end):
            getattr(made[name], end)()


class _RaisesWhatItCatches(ast.NodeTransformer):
    """Lets a `try` fail that raises nothing: an example of an error would otherwise run without the error."""

    def visit_Try(self, node: ast.Try) -> ast.Try:
        self.generic_visit(node)
        if not node.orelse:
            node.body += ast.parse("raise AssertionError('nothing was raised')").body
        return node


def test_the_page_lists_no_name_that_is_private() -> None:
    assert [name for name in SHOWN if any(part.startswith("_") for part in name.split("."))] == []


def test_a_page_that_differs_from_a_docstring_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import holdfast

    monkeypatch.setattr(holdfast.MapConfig, "__doc__", "Something else.")
    changed = [path.name for path, text in reference.written().items() if text != WRITTEN[path]]
    assert changed == ["configuration.md"]
