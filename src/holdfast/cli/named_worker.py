"""Which worker of a file a command means, if it names the file alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Kind

if TYPE_CHECKING:
    from holdfast.workers.accept import ServedVersion


def meant_worker(served: Mapping[str, Mapping[str, ServedVersion]], file: Path) -> str:
    """The id of the worker or pipeline to use if the command names only a file. `served` has the workers and pipelines of the file, and
    those that its pipelines name. If `served` has exactly one pipeline, that one; if it has no pipeline and exactly one worker, that
    worker. Otherwise raises InvalidParameter."""
    pipelines = [worker for worker, versions in served.items() if list(versions.values())[-1].kind is Kind.PIPELINE]
    for found in (pipelines, list(served)):
        if len(found) == 1:
            return found[0]
    raise InvalidParameter(f"{file} has several workers ({', '.join(served)}). Choose one: {file}:WORKER_ID.")
