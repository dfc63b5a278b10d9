"""A write that is committed alone, for callers that have a store and no engine."""

from __future__ import annotations

from holdfast.model.errors import HoldfastError
from holdfast.model.verbs import Answer, Write
from holdfast.store.seam import CommitStore


def write_one(store: CommitStore, write: Write, now: int) -> Answer:
    """Commit one write, and return its answer. If the store refuses the write, its error is raised."""
    (answer,) = store.commit([write], now).answers
    if isinstance(answer, HoldfastError):
        raise answer
    return answer
