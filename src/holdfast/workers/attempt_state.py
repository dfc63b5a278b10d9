"""The state of the attempt that runs: its number, its time, and whether the run was cancelled."""

from __future__ import annotations

import msgspec

from holdfast.workers.attempt_time import AttemptTime


class AttemptState(msgspec.Struct, kw_only=True):
    """The state of one attempt while one body of it runs. The objects that serve the body share it."""

    number: int
    """The number of the attempt in its run, from 1."""
    time: AttemptTime
    cancelled: bool = False
    """Whether the run was cancelled. Then the run asks no person, and the response names the calls whose outcome is unknown."""
