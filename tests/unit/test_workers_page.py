"""docs/internals/workers.md keeps up with the code: every file, every kind of operation, every counter."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.model.operations import APPROVAL, CANCEL
from holdfast.workers import ballots, run_operations
from tests.unit.source_files import SRC


def page(root: Path) -> str:
    return (root / "docs/internals/workers.md").read_text(encoding="utf-8")


def test_the_page_lists_every_file_of_workers_and_no_other(root: Path) -> None:
    listed = re.findall(r"^\| `(\w+\.py)` \|", page(root), re.M)
    assert sorted(listed) == sorted(path.name for path in (SRC / "workers").glob("*.py") if path.name != "__init__.py")


def test_the_page_has_a_place_for_every_kind_of_operation_that_a_run_writes(root: Path) -> None:
    kinds = [
        run_operations.ATTEMPT,
        run_operations.EFFECTS,
        run_operations.INTENT,
        run_operations.RECEIPT,
        run_operations.REQUEST,
        CANCEL,
        run_operations.STEP,
        APPROVAL,
        ballots.VOTE,
        ballots.ESCALATION,
    ]
    placed = re.findall(r"(?:CONTEXT|STEP|CALLBACK) +(\w+)", page(root))
    assert sorted(set(placed)) == sorted(kinds)


def test_the_page_names_every_counter(root: Path) -> None:
    source = "".join(path.read_text() for path in (SRC / "workers").glob("*.py"))
    kinds = set(re.findall(r'f"(rate|day|closed|[a-z]+)/\{', source))
    assert kinds == {"rate", "day", "closed"}
    assert [kind for kind in kinds if f"`{kind}/" not in page(root)] == []
