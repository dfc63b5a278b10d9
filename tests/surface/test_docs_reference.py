"""The reference of the Python API has every public name, says what the docstrings say, and its examples run."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path

import pytest

from tests.drawings import reference
from tests.drawings.public_names import VERBS, methods, needed, public

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
    verbs = {f"{title}.{verb}": method for title in VERBS for verb, method in methods(names[title]).items()}
    assert [title for title, value in (names | verbs).items() if not inspect.getdoc(value)] == []


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
