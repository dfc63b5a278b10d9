"""Setting up the interpreter. Both settings are the process's, so an application that has its own may turn this off (`Settings.tune`)."""

from __future__ import annotations

import gc
import sys
from typing import Final

_SWITCH_SECONDS: Final = 0.0005
_GC_THRESHOLD: Final = 50_000


def tune() -> None:
    """Shorter turns for threads, fewer passes for the garbage collector; never against a setting that already goes further.

    A thread that computes holds the interpreter for a whole turn each time the writer comes back from the disk: at Python's default
    of 5 ms a batch of ten statements takes 50. And thousands of waiting coroutines are garbage to nobody, yet the default threshold
    has the collector visit them every few hundred allocations.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
    young, middle, old = gc.get_threshold()
    if 0 < young < _GC_THRESHOLD:
        gc.set_threshold(_GC_THRESHOLD, middle, old)
