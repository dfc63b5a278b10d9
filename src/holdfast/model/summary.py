"""The summary of an execution: the few facts by which people look for it. It is in the header, so that lists need not read payloads."""

from __future__ import annotations

from typing import Final

import msgspec

_LONGEST: Final = 128
"""An error code is cut to this many characters. Both databases index it, and Postgres does not allow long keys."""

OK: Final = "ok"
PARTIAL: Final = "partial"
TIMED_OUT: Final = "timed_out"
"""The error code of an execution that took longer than its timeout."""
STOPPED: Final = "stopped"
"""The error code of an execution that was stopped."""
CANCELLED: Final = "cancelled"
"""The error code of a run that was cancelled."""
UNTYPED: Final = "error"
"""The error code of a failure that names no type."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Facts about an execution, for lists and searches. The pipeline is written when the execution starts, and everything else when it
    closes."""

    outcome: str | None = None
    """The status of a run's response: `ok`, `partial` (a worker's run failed, but gave outputs; or a pipeline's run succeeded without a
    result that its author wanted), or a word for how the run failed. None if there is no response: the run has not ended, it ended without
    a response, or the execution is not a run."""
    error_code: str | None = None
    """For a run with a response: the error code of the response. For any other execution: its error type if it failed, `timed_out` if it
    timed out, `stopped` if it was stopped. None if there is no error."""
    pipeline: str | None = None
    """The name of a pipeline: the one that the execution runs; else the one to which an execution above it belongs. None if there is
    none."""
    cost: int | None = None
    """What a run spent on models and other paid tools, in billionths of a dollar, as the ledger counts; None if it is not known."""
    attempt: int | None = None
    """How many attempts a run used; None if it is not known."""
    attempts: int | None = None
    """How many attempts a run was allowed; None if it is not known."""


def begun(pipeline: str | None) -> Summary | None:
    """The summary of an execution that starts; None without a pipeline."""
    return None if pipeline is None else Summary(pipeline=pipeline)


def pipeline_of(summary: Summary | None) -> str | None:
    """The pipeline that a summary names; None if there is no summary or no pipeline."""
    return None if summary is None else summary.pipeline


def ended(before: Summary | None, told: Summary) -> Summary:
    """The summary of an execution that ends: the facts in `told`, and the pipeline in `before`, which is the summary from the start (None
    if there was none)."""
    pipeline = pipeline_of(before)
    return told if pipeline is None else msgspec.structs.replace(told, pipeline=pipeline)


def error_word(text: str | None) -> str | None:
    """An error code or an error type as a store keeps it: printable, and cut to the length that an index allows. None for an empty text."""
    if not text:
        return None
    short = text[:_LONGEST]
    return short if short.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in short)
