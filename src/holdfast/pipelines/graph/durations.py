"""Durations of a pipeline: an integer and s, m, h or d, such as `10m` (model.durations has the form)."""

from __future__ import annotations

from holdfast.model.durations import HINT, parsed
from holdfast.model.durations import MAX_SECONDS as MAX_SECONDS
from holdfast.model.durations import duration_of as duration_of
from holdfast.pipelines.graph.refusals import PipelineInvalid


def seconds_of(text: object, what: str = "A duration") -> int:
    """Read a duration such as `10m`, and return its seconds. Raises PipelineInvalid if the text is not a duration from 1 second to 366
    days. `what` is the beginning of the error's sentence."""
    seconds = parsed(text)
    if seconds is None:
        raise PipelineInvalid(f"{what} is {text!r:.80}. {HINT}")
    if seconds > MAX_SECONDS:
        raise PipelineInvalid(f"{what} is {text!r:.80}, which is too long. Write at most '366d'.")
    return seconds
