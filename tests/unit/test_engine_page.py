"""docs/internals/engine.md is kept true where a machine can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.model import follow_ups, outside, starts, verbs
from holdfast.model.execution import State


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parents[2] / "docs/internals/engine.md").read_text()


def test_the_page_names_every_state_of_an_execution(page: str) -> None:
    assert [state.value for state in State if f"`{state.value}`" not in page] == []


def test_the_page_names_every_verb_a_store_commits(page: str) -> None:
    for module, first in ((starts, "Start"), (verbs, "Claim"), (outside, "Answering"), (follow_ups, "Return")):
        written = [name for name, cls in vars(module).items() if isinstance(cls, type) and "decide" in vars(cls) and name != "Write"]
        mine = [name for name in written if vars(module)[name].__module__ == module.__name__]
        listed = re.search(rf"`({first}\b[^`]*)`", page)
        assert listed is not None
        assert sorted(listed[1].split(", ")) == sorted(mine)


def test_the_page_explains_every_table_of_the_schema(page: str) -> None:
    schema = (Path(__file__).parents[2] / "src/holdfast/store/sqlite/schema.sql").read_text()
    tables = re.findall(r"CREATE TABLE (\w+)", schema)
    assert len(tables) == 21
    assert [table for table in tables if f"- `{table}`:" not in page] == []


def test_the_page_has_every_protocol_and_a_row_for_every_crash(page: str) -> None:
    for word in ("epoch", "revision", "token", "claim", "takeover", "suspend", "wake-up", "Group commit", "resting", "outbox", "retention"):
        assert word in page, word
    rows = re.search(r"\| the process dies \|.*?\n\n", page, re.S)
    assert rows is not None
    assert rows[0].count("\n") >= 16
