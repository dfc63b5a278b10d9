"""The summary of an execution: the few facts about its end by which people look for it. It lies in the header, so no list reads payloads."""

from __future__ import annotations

from typing import Final

import msgspec

OK: Final = "ok"
PARTIAL: Final = "partial"
TIMED_OUT: Final = "timed_out"
"""The error code of an execution that took longer than its timeout."""
STOPPED: Final = "stopped"
"""The error code of an execution that was stopped."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a list shows of an execution. The pipeline is written when the execution starts, and everything else when it closes."""

    outcome: str | None = None
    """The status of a run's response: `ok`, `partial`, or how it failed. A plain function has none."""
    error_code: str | None = None
    """The error code of a run's response; the error type of a plain function that failed; `timed_out` or `stopped`."""
    pipeline: str | None = None
    """The pipeline that the execution runs, or whose node started it."""
    cost: int | None = None
    """What it spent on models, in billionths of a dollar, as the ledger counts."""
    attempt: int | None = None
    """How many attempts a run used."""
    attempts: int | None = None
    """How many attempts it was allowed."""


NO_SUMMARY: Final = Summary()
