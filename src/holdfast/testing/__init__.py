"""testing — for those who test durable functions and workers, and for ourselves.

Belongs: a runner with virtual time, crash-everywhere, the replay check, the pytest plugin, the store's suite (stores/).
Does not: anything a production process needs.   May import: everything below it.
Start reading at runner.py; worker_kit.py is for workers. Names are loaded when they are asked for: pytest loads the plugin in every
project that has Holdfast installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.crashing import CrashDiffers as CrashDiffers
    from holdfast.testing.crashing import crash_everywhere as crash_everywhere
    from holdfast.testing.replays import ReplayDiffers as ReplayDiffers
    from holdfast.testing.replays import check_replays as check_replays
    from holdfast.testing.results import Result as Result
    from holdfast.testing.results import Seen as Seen
    from holdfast.testing.runner import Runner as Runner

_WHERE = {
    "CrashDiffers": "holdfast.testing.crashing",
    "ReplayDiffers": "holdfast.testing.replays",
    "Result": "holdfast.testing.results",
    "Runner": "holdfast.testing.runner",
    "Seen": "holdfast.testing.results",
    "check_replays": "holdfast.testing.replays",
    "crash_everywhere": "holdfast.testing.crashing",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
