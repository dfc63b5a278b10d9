"""testing — for those who test durable functions, and for ourselves.

Belongs: a runner with virtual time, crash-everywhere, the replay check, the store's suite.
Does not: anything a production process needs.   May import: everything below it.
Start reading at runner.py.
"""

from __future__ import annotations

from holdfast.testing.crashing import CrashDiffers, crash_everywhere
from holdfast.testing.results import Result, Seen
from holdfast.testing.runner import Runner

__all__ = ["CrashDiffers", "Result", "Runner", "Seen", "crash_everywhere"]
