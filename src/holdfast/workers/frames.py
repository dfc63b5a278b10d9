"""The frames a body may send. It is hostile: whatever is not exactly one of these ends its attempt."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from holdfast.model.errors import HoldfastError
from holdfast.workers.body.errors import ERROR_CODE


class FrameInvalid(HoldfastError):
    """A body said something that is no frame."""

    code = "frame_invalid"


class _Frame(msgspec.Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    pass


class BodyError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a body did not come to a good end, in its own words."""

    error_code: Annotated[str, msgspec.Meta(pattern=ERROR_CODE)]
    message: str = ""
    retryable: bool | None = None
    needs_human: bool = False
    partial: dict[str, Any] | None = None
    retry_after_seconds: float | None = None
    details: Any = None
    type: str | None = None


class Ready(_Frame, frozen=True, tag="ready"):
    """Its code is imported; it waits for its order."""


class ToolAsked(_Frame, frozen=True, tag="tool"):
    """Call a tool."""

    id: int
    tool: str
    arguments: dict[str, Any]
    key: str | None = None


class StepBegun(_Frame, frozen=True, tag="step_begin"):
    """A step is to run, unless it has."""

    id: int
    name: str


class StepEnded(_Frame, frozen=True, tag="step_end"):
    """A step has run."""

    id: int
    result: Any = None
    error: BodyError | None = None


class Asked(_Frame, frozen=True, tag="ask"):
    """Ask a person."""

    id: int
    question: str
    schema: dict[str, Any] | None = None


class ArtifactGiven(_Frame, frozen=True, tag="artifact"):
    """Store the file that comes along."""

    id: int
    name: str
    media_type: str
    fd: bool = True


class OpenAsked(_Frame, frozen=True, tag="open"):
    """Open an artifact."""

    id: int
    artifact_id: str


class Progress(_Frame, frozen=True, tag="progress"):
    """How far it is."""

    data: Any = None


class Logged(_Frame, frozen=True, tag="log"):
    """A line of its log."""

    level: str
    message: str
    fields: dict[str, Any] = {}


class Done(_Frame, frozen=True, tag="done"):
    """It came to its end."""

    outputs: Any = None


class Failed(_Frame, frozen=True, tag="failed"):
    """It gave up."""

    error: BodyError


FromBody: TypeAlias = Ready | ToolAsked | StepBegun | StepEnded | Asked | ArtifactGiven | OpenAsked | Progress | Logged | Done | Failed


_KINDS: dict[Any, Any] = {kind.__struct_config__.tag: kind for kind in get_args(FromBody)}


def frame_of(data: Any) -> FromBody:
    """The frame that a body sent; FrameInvalid for anything else."""
    said = data.get("op") if isinstance(data, dict) else None
    kind = _KINDS.get(said, FromBody) if isinstance(said, str) else FromBody  # what a union may hold is looked up anew each time
    try:
        frame: FromBody = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise FrameInvalid(f"The body sent what is no frame: {error}") from None
    return frame
