"""The status of an execution that people see: one word, with the shape and the colours that the console shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.operations import Word
from holdfast.model.summary import OK, PARTIAL


class ShownStatus(Word):
    """What people see of an execution: whether it runs, what it waits for, or how it ended."""

    RUNNING = "running"
    WAITING = "waiting"
    """It waits for a runner, a timer, an answer, the end of another execution, or its turn in a queue; or it is an imported copy that was
    not closed."""
    PERSON = "person"
    """It waits for a person's decision."""
    RETRYING = "retrying"
    """Its latest invocation failed, and another one runs or will run."""
    OK = "ok"
    PARTIAL = "partial"
    """Its run failed, but gave outputs; or the run of a pipeline succeeded, although a result that the author wanted is missing or
    partial."""
    FAILED = "failed"
    """It failed or timed out, or its run's response says that it failed."""
    STOPPED = "stopped"
    QUARANTINED = "quarantined"


class StatusStyle(msgspec.Struct, frozen=True):
    """How a status is shown. The shape and the word can be understood without the colour."""

    status: ShownStatus
    shape: str
    glyph: str
    """The shape as one character, for a terminal."""
    light: str
    """The colour on a light page."""
    dark: str
    """The colour on a dark page."""


STATUS_STYLES: Final[Mapping[ShownStatus, StatusStyle]] = {
    style.status: style
    for style in (
        StatusStyle(ShownStatus.RUNNING, "ring", "◎", "#1d5fbf", "#7ab3ff"),
        StatusStyle(ShownStatus.WAITING, "hollow", "○", "#5b6472", "#a3adba"),
        StatusStyle(ShownStatus.PERSON, "diamond", "◆", "#7a3fb8", "#c9a2ff"),
        StatusStyle(ShownStatus.RETRYING, "half", "◐", "#8a5a00", "#f0b64a"),
        StatusStyle(ShownStatus.OK, "disc", "●", "#1b6e3c", "#63cf8d"),
        StatusStyle(ShownStatus.PARTIAL, "three-quarter disc", "◕", "#0f6b6b", "#5ccfcf"),
        StatusStyle(ShownStatus.FAILED, "cross", "✕", "#b3261e", "#ff8f87"),
        StatusStyle(ShownStatus.STOPPED, "square", "■", "#6b4a3a", "#d0a48e"),
        StatusStyle(ShownStatus.QUARANTINED, "triangle", "▲", "#a3195b", "#ff8cc0"),
    )
}
"""How the command line and the console show each status."""


def shown_status(header: Execution, *, undecided: bool) -> ShownStatus:
    """The status of an execution as people see it. `undecided`: whether an approval of the execution is open, which a person must decide;
    it counts only while the execution is suspended."""
    status = header.status
    match status:
        case ExecutionStatus.RUNNING:
            return _open_status(header, undecided=undecided)
        case ExecutionStatus.SUCCEEDED:
            outcome = None if header.summary is None else header.summary.outcome
            if outcome is None or outcome == OK:
                return ShownStatus.OK
            return ShownStatus.PARTIAL if outcome == PARTIAL else ShownStatus.FAILED
        case ExecutionStatus.STOPPED:
            return ShownStatus.STOPPED
        case ExecutionStatus.FAILED | ExecutionStatus.TIMED_OUT:
            return ShownStatus.FAILED
        case _:
            assert_never(status)


def _open_status(header: Execution, *, undecided: bool) -> ShownStatus:
    state, failed = header.state, header.failures > 0
    match state:
        case State.QUARANTINED:
            return ShownStatus.QUARANTINED
        case State.RUNNING | State.CLOSING | State.CLOSED:
            return ShownStatus.RETRYING if failed else ShownStatus.RUNNING
        case State.READY:
            return ShownStatus.RETRYING if failed else ShownStatus.WAITING
        case State.SUSPENDED:
            return ShownStatus.PERSON if undecided else ShownStatus.WAITING
        case State.QUEUED | State.DELAYED | State.IMPORTED:
            return ShownStatus.WAITING
        case _:
            assert_never(state)
