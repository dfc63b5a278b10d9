"""Tuning of the Python interpreter. It affects the whole process, so an application may turn it off (`Settings.tune`)."""

from __future__ import annotations

import gc
import sys
from typing import Final

_SWITCH_SECONDS: Final = 0.0005
_GC_THRESHOLD: Final = 50_000


def tune() -> None:
    """Shorten the switch interval for threads, and raise the threshold of the garbage collector. An interval that is short enough and a
    threshold that is high enough are left as they are, each by itself. A collector that is switched off stays off.

    When the writer thread returns from the disk, it waits until a thread that computes releases the interpreter. With Python's default of 5
    ms, a batch of ten statements may take 50 ms. Thousands of waiting coroutines are not garbage, but with the default threshold the
    collector visits them after every few hundred allocations."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
    young, middle, old = gc.get_threshold()
    if 0 < young < _GC_THRESHOLD:
        gc.set_threshold(_GC_THRESHOLD, middle, old)
