"""docs/proof.md is kept true where a machine can tell: its figures are those of the last run, and what it names is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from bench.__main__ import PICTURE, RESULTS
from bench.figures import Report
from bench.page import PAGE, with_figures, with_soak
from bench.picture import picture

ROOT = PAGE.parents[1]
PAGE_TEXT = PAGE.read_text(encoding="utf-8")


def test_the_figures_and_the_picture_are_those_of_the_last_run() -> None:
    """`python -m bench --again` writes them anew."""
    report = Report.from_json(RESULTS.read_text(encoding="utf-8"))
    assert with_figures(PAGE_TEXT, report) == PAGE_TEXT
    assert PICTURE.read_text(encoding="utf-8") == picture(report)


def test_every_command_is_a_word_of_the_makefile_and_every_setting_is_used_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    words = {word for command in re.findall(r"`make ([^`]+)`", PAGE_TEXT) for word in command.split() if "=" not in word}
    assert words >= {"test", "crash", "simulate", "soak", "bench"}
    assert [word for word in words if f"\n{word}: " not in makefile] == []
    settings = {name for code in re.findall(r"`([^`]+)`", PAGE_TEXT) for name in re.findall(r"\b([A-Z]+)=", code)}
    assert settings >= {"ROUNDS", "SEEDS", "SECONDS", "PEERS"}
    assert [name for name in settings if f"$({name})" not in makefile] == []


def test_every_file_and_every_name_of_the_kit_is_there() -> None:
    paths = re.findall(r"`((?:src|tests|bench)/[^`]+)`", PAGE_TEXT)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    names = re.findall(r"`holdfast\.testing\.(\w+)`", PAGE_TEXT)
    assert {"Runner", "crash_everywhere", "check_replays"} <= set(names)
    assert [name for name in names if not hasattr(import_module("holdfast.testing"), name)] == []


def test_what_is_written_into_the_page_replaces_what_was_there(tmp_path: Path) -> None:
    page = "before\n<!-- written by make soak -->\n\nold\n\n<!-- end of make soak -->\nafter\n"
    assert with_soak(page, "new") == page.replace("old", "> new")
    with pytest.raises(ValueError, match="no place"):
        with_soak("a page without marks", "new")
