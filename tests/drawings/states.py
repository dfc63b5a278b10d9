"""Draws docs/internals/states.md from the tables that decide: `python -m tests.drawings.states > docs/internals/states.md`.

A test compares the page with what is drawn here, so the page cannot say anything else than the code does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from holdfast.model.operations import OPEN, Status, Type
from holdfast.model.transitions import MOVES, TIMERS

_Move = tuple[Status | None, Status, str]
"""From, to, and by what."""

_TITLE: Final = """\
# The states of an operation

Drawn from `MOVES` and `TIMERS` in `src/holdfast/model/transitions.py` by `python -m tests.drawings.states`.
Change the table, not this page.

A row says what an update asks for, a column where the operation stands, a cell where it will stand. An empty cell is refused,
and the whole batch with it. *absent* is an operation that does not exist yet. A status without a column has only empty cells.
"""

_TIMER: Final = {
    Type.STEP: "the retry is due",
    Type.WAIT: "it is due",
    Type.CALLBACK: "its timeout, or its heartbeat's",
}

_BY_OTHERS: Final[Mapping[Type, Sequence[_Move]]] = {
    Type.EXECUTION: (
        (None, Status.STARTED, "started"),
        (Status.STARTED, Status.TIMED_OUT, "its timeout"),
        (Status.STARTED, Status.STOPPED, "stopped"),
    ),
    Type.CALLBACK: ((Status.STARTED, Status.SUCCEEDED, "answered"), (Status.STARTED, Status.FAILED, "answered with an error")),
    Type.CHAINED_INVOKE: (
        (None, Status.FAILED, "no such function"),
        (Status.STARTED, Status.SUCCEEDED, "the child succeeded"),
        (Status.STARTED, Status.FAILED, "the child failed"),
        (Status.STARTED, Status.TIMED_OUT, "the child timed out"),
        (Status.STARTED, Status.STOPPED, "the child was stopped"),
    ),
}
"""What neither an update nor an operation's timer does, but a verb of model.verbs."""


def page() -> str:
    """The whole page."""
    parts = [_TITLE, "## What an update may do\n", *_table(), "\n## What the service does when the time has come\n", *_timers()]
    for kind in Type:
        moves = list(_moves(kind))
        if moves:
            parts += [f"\n## {kind}\n", "```mermaid", "stateDiagram-v2", *_diagram(moves), "```"]
    return "\n".join(parts) + "\n"


def _table() -> Iterator[str]:
    columns: list[Status | None] = [status for status in (None, *Status) if any(status in moves for moves in MOVES.values())]
    yield f"| update | {' | '.join(map(_shown, columns))} |"
    yield "|---" * (len(columns) + 1) + "|"
    for (kind, action), moves in MOVES.items():
        cells = [moves.get(status) or "" for status in columns]
        yield f"| {kind} {action} | {' | '.join(cells)} |"


def _timers() -> Iterator[str]:
    yield "| operation | stands | when | will stand |"
    yield "|---|---|---|---|"
    for (kind, before), after in TIMERS.items():
        yield f"| {kind} | {before} | {_TIMER[kind]} | {after} |"


def _moves(kind: Type) -> Iterator[_Move]:
    for (of, action), moves in MOVES.items():
        if of is kind:
            yield from ((before, after, action.value) for before, after in moves.items())
    for (of, before), after in TIMERS.items():
        if of is kind:
            yield before, after, _TIMER[kind]
    yield from _BY_OTHERS.get(kind, ())


def _diagram(moves: Sequence[_Move]) -> Iterator[str]:
    grouped: dict[tuple[Status | None, Status], list[str]] = {}
    for before, after, by in moves:
        grouped.setdefault((before, after), []).append(by)
    for (before, after), causes in grouped.items():
        yield f"    {'[*]' if before is None else before} --> {after}: {', '.join(causes)}"
    ends = {after: None for _, after, _ in moves if after not in OPEN}
    yield from (f"    {end} --> [*]" for end in ends)


def _shown(status: Status | None) -> str:
    return "*absent*" if status is None else status.value


if __name__ == "__main__":
    os.write(1, page().encode())  # not `print`: a library never does, and this line runs only as a command
