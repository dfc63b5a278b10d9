"""The frames between a body and its runner: the order with which a body begins, and the frames that a body may send. A body may be hostile:
anything that is not exactly one of these frames ends its attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from holdfast.contract.terms import Contract
from holdfast.model import json_structs
from holdfast.model.error_text import MOST_FRAME, MOST_FRAMES
from holdfast.model.errors import HoldfastError
from holdfast.workers.body.errors import ERROR_CODE
from holdfast.workers.tools.seam import Effect, Tool


class FrameInvalid(HoldfastError):
    """A body sent something that is not a valid frame."""

    code = "frame_invalid"


def order_of(
    run_id: str, attempt: int, contract: Contract, inputs: Any, tools: Mapping[str, Tool], now: int, seconds: float
) -> dict[str, Any]:
    """The first frame that a body gets. `contract` has the limits of the run. `now` is the first value of `ctx.now()`. The attempt may take
    `seconds`."""
    return {
        "op": "run",
        "inputs": inputs,
        "contract": contract,
        "seed": f"{run_id}/{attempt}",
        "now": now,
        "remaining": seconds,
        "writes": [name for name, tool in tools.items() if tool.effect is Effect.WRITE],
    }


class _Frame(msgspec.Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    pass


class BodyError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of an attempt, in the form in which a body sends it. The runner uses this form for its own errors too."""

    error_code: Annotated[str, msgspec.Meta(pattern=ERROR_CODE)]
    message: str = ""
    retryable: bool | None = None
    needs_human: bool = False
    partial: dict[str, Any] | None = None
    retry_after_seconds: float | None = None
    details: Any = None
    type: str | None = None
    frames: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=MOST_FRAME)], ...], msgspec.Meta(max_length=MOST_FRAMES)] = ()
    """The lines of the author's code that the error passed through, the innermost last. They are stored for people to read; responses never
    contain them."""


class Ready(_Frame, frozen=True, tag="ready"):
    """The body has imported its code and waits for its order."""


class ToolAsked(_Frame, frozen=True, tag="tool"):
    """The body asks for a call of a tool. `key` identifies the call. If `key` is None, the call is identified by its number among the calls
    of this tool without a key."""

    id: int
    tool: str
    arguments: dict[str, Any]
    key: str | None = None


class StepBegun(_Frame, frozen=True, tag="step_begin"):
    """The body asks to run a step. If the step's end is recorded, the runner answers with the recorded result or error; otherwise the
    runner tells the body to run the step."""

    id: int
    name: str


class StepEnded(_Frame, frozen=True, tag="step_end"):
    """The body has run a step: its result or its error."""

    id: int
    result: Any = None
    error: BodyError | None = None


class QuestionFrame(_Frame, frozen=True, tag="ask"):
    """The body asks a person a question."""

    id: int
    question: str
    schema: dict[str, Any] | None = None


class ArtifactGiven(_Frame, frozen=True, tag="artifact"):
    """The body asks to store the file whose descriptor this frame carries as an artifact."""

    id: int
    name: str
    media_type: str
    fd: bool = True


class OpenAsked(_Frame, frozen=True, tag="open"):
    """The body asks to open an artifact."""

    id: int
    artifact_id: str


class Progress(_Frame, frozen=True, tag="progress"):
    """The body reports progress."""

    data: Any = None


class Logged(_Frame, frozen=True, tag="log"):
    """A log line of the body."""

    level: str
    message: str
    fields: dict[str, Any] = {}


class DoneFrame(_Frame, frozen=True, tag="done"):
    """The body returned outputs."""

    outputs: Any = None


class FailureFrame(_Frame, frozen=True, tag="failed"):
    """The body raised an error."""

    error: BodyError


FromBody: TypeAlias = (
    Ready | ToolAsked | StepBegun | StepEnded | QuestionFrame | ArtifactGiven | OpenAsked | Progress | Logged | DoneFrame | FailureFrame
)


_KINDS: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in get_args(FromBody)}


def frame_of(data: Any) -> FromBody:
    """The frame that a body sent. Raises FrameInvalid if `data` is not a valid frame."""
    said = data.get("op") if isinstance(data, dict) else None
    kind: Any = _KINDS.get(said, FromBody) if isinstance(said, str) else FromBody
    try:
        frame: FromBody = json_structs.converted(data, kind)
    except msgspec.ValidationError as error:
        raise FrameInvalid(f"The worker's body sent the runner a message that is not a valid frame: {error}") from None
    return frame
