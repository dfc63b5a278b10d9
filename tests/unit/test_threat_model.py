"""docs/internals/threat-model.md is kept true where a machine can tell: each party is in it, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PARTIES = {"operator", "author", "tool", "page", "model", "caller", "tenant"}
COUNTED = 25


def rows(root: Path, heading: str) -> list[list[str]]:
    page = (root / "docs/internals/threat-model.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_page_has_every_party_and_says_what_stops_each_but_the_operator(root: Path) -> None:
    assert {row[0] for row in rows(root, "The parties")} == PARTIES
    assert {row[0] for row in rows(root, "What stops each")} == (PARTIES - {"operator"}) | {"another user"}


def test_every_threat_names_a_test_that_is_there(root: Path) -> None:
    named = [re.fullmatch(r"`(tests/[\w/]+\.py)::(\w+)`", row[3]) for row in rows(root, "What stops each")]
    assert len(named) > COUNTED
    missing = []
    for found in named:
        assert found is not None
        path = root / found[1]
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        if found[2] not in tests:
            missing.append(found[0])
    assert missing == []
