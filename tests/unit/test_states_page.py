"""docs/internals/states.md is what the tables draw, and the drawing leaves nothing out."""

from pathlib import Path

from holdfast.model.operations import Type
from holdfast.model.transitions import MOVES, TIMERS
from tests.drawings import states as drawing


def test_the_page_of_states_is_up_to_date(root: Path) -> None:
    page = (root / "docs" / "internals" / "states.md").read_text(encoding="utf-8")
    assert page == drawing.page(), "python -m tests.drawings.states > docs/internals/states.md"


def test_every_move_is_drawn() -> None:
    pages = {kind: drawing.page().partition(f"\n## {kind}\n")[2].partition("\n## ")[0] for kind in Type}
    for (kind, action), moves in MOVES.items():
        for before, after in moves.items():
            arrow = f"    {'[*]' if before is None else before} --> {after}: "
            (drawn,) = (line for line in pages[kind].splitlines() if line.startswith(arrow))
            assert action in drawn.removeprefix(arrow).split(", ")


def test_every_timer_is_drawn() -> None:
    lines = drawing.page().splitlines()
    for (kind, before), after in TIMERS.items():
        assert [line for line in lines if line.startswith(f"| {kind} | {before} |") and line.endswith(f"| {after} |")]
        assert [line for line in lines if line.startswith(f"    {before} --> {after}: ")]


def test_an_illegal_move_is_an_empty_cell() -> None:
    header, _, *body = (line for line in drawing.page().splitlines() if line.startswith("|"))
    columns = [cell.strip() for cell in header.split("|")[2:-1]]
    cancel = next(line for line in body if line.startswith("| WAIT CANCEL |"))
    cells = dict(zip(columns, (cell.strip() for cell in cancel.split("|")[2:-1]), strict=True))
    assert cells == {"*absent*": "", "STARTED": "CANCELLED", "READY": ""}
