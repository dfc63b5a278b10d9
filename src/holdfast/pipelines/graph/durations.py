"""Durations of a pipeline, in the one strict form of model.durations."""

from __future__ import annotations

from holdfast.model.durations import HINT, parsed
from holdfast.model.durations import MAX_SECONDS as MAX_SECONDS
from holdfast.model.durations import duration_of as duration_of
from holdfast.pipelines.graph.refusals import PipelineInvalid


def seconds_of(text: object, what: str = "A duration") -> int:
    """The seconds of a duration, 1 or more and at most a year. `what` is the beginning of the error's sentence (PipelineInvalid)."""
    seconds = parsed(text)
    if seconds is None:
        raise PipelineInvalid(f"{what} is {text!r:.80}. {HINT}")
    if seconds > MAX_SECONDS:
        raise PipelineInvalid(f"{what} is {text!r:.80}, which is more than a year. Write at most '366d'.")
    return seconds
