"""Paths as authors of pipelines write them. The code is in contract/paths.py, because the rules of contract/ use paths too."""

from __future__ import annotations

from holdfast.contract.paths import EACH, MAX_FIELD, MAX_INDEX, MAX_PARTS, Part, PathInvalid, ValuePath, flaw_of, text_of
from holdfast.contract.paths import path_of as _read
from holdfast.pipelines.graph.refusals import PipelineInvalid

__all__ = ["EACH", "MAX_FIELD", "MAX_INDEX", "MAX_PARTS", "Part", "ValuePath", "flaw_of", "path_of", "text_of"]


def path_of(text: str) -> ValuePath:
    """The parts of a path that an author wrote. Raises PipelineInvalid if the text is not a path."""
    try:
        return _read(text)
    except PathInvalid as wrong:
        raise PipelineInvalid(str(wrong)) from None
