"""Standings: what people see of an execution, in one word, with the shape and the colours that the command line and the console show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.operations import Word
from holdfast.model.summary import OK, PARTIAL


class Standing(Word):
    """What people see of an execution: whether it runs, what it waits for, or how it ended."""

    RUNNING = "running"
    WAITING = "waiting"
    """It waits for a runner, a timer, an answer, or its turn in a queue."""
    PERSON = "person"
    """It waits for a person's decision."""
    RETRYING = "retrying"
    """Its last invocation failed, and it is tried again."""
    OK = "ok"
    PARTIAL = "partial"
    """Its run ended with a partial result."""
    FAILED = "failed"
    """It failed or timed out, or its run's response says that it failed."""
    STOPPED = "stopped"
    QUARANTINED = "quarantined"


class Look(msgspec.Struct, frozen=True):
    """How a standing is shown. The shape and the word can be understood without the colour."""

    standing: Standing
    shape: str
    glyph: str
    """The shape as one character, for a terminal."""
    light: str
    """The colour on a light page."""
    dark: str
    """The colour on a dark page."""


LOOKS: Final[Mapping[Standing, Look]] = {
    look.standing: look
    for look in (
        Look(Standing.RUNNING, "ring", "◎", "#1d5fbf", "#7ab3ff"),
        Look(Standing.WAITING, "hollow", "○", "#5b6472", "#a3adba"),
        Look(Standing.PERSON, "diamond", "◆", "#7a3fb8", "#c9a2ff"),
        Look(Standing.RETRYING, "half", "◐", "#8a5a00", "#f0b64a"),
        Look(Standing.OK, "disc", "●", "#1b6e3c", "#63cf8d"),
        Look(Standing.PARTIAL, "three-quarter disc", "◕", "#0f6b6b", "#5ccfcf"),
        Look(Standing.FAILED, "cross", "✕", "#b3261e", "#ff8f87"),
        Look(Standing.STOPPED, "square", "■", "#6b4a3a", "#d0a48e"),
        Look(Standing.QUARANTINED, "triangle", "▲", "#a3195b", "#ff8cc0"),
    )
}
"""How the command line and the console show each standing."""


def standing_of(header: Execution, *, undecided: bool) -> Standing:
    """The standing of an execution. `undecided` says that it waits for a person's decision."""
    status = header.status
    match status:
        case ExecutionStatus.RUNNING:
            return _open_standing(header, undecided=undecided)
        case ExecutionStatus.SUCCEEDED:
            outcome = None if header.summary is None else header.summary.outcome
            if outcome is None or outcome == OK:
                return Standing.OK
            return Standing.PARTIAL if outcome == PARTIAL else Standing.FAILED
        case ExecutionStatus.STOPPED:
            return Standing.STOPPED
        case ExecutionStatus.FAILED | ExecutionStatus.TIMED_OUT:
            return Standing.FAILED
        case _:
            assert_never(status)


def _open_standing(header: Execution, *, undecided: bool) -> Standing:
    state, failed = header.state, header.failures > 0
    match state:
        case State.QUARANTINED:
            return Standing.QUARANTINED
        case State.RUNNING | State.CLOSING | State.CLOSED:
            return Standing.RETRYING if failed else Standing.RUNNING
        case State.READY:
            return Standing.RETRYING if failed else Standing.WAITING
        case State.SUSPENDED:
            return Standing.PERSON if undecided else Standing.WAITING
        case State.QUEUED | State.DELAYED | State.IMPORTED:
            return Standing.WAITING
        case _:
            assert_never(state)
