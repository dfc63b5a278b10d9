"""testing — tools for users who test durable functions, workers, pipelines and stores.

Belongs: a runner with virtual time (runner.py, results.py), crash_everywhere (crashing.py), check_replays (replays.py), the same for
workers (worker_kit.py, worker_stubs.py) and pipelines (pipeline_kit.py, pipeline_stage.py), the pytest plugin (plugin.py), the suite for
store backends (stores/).
Does not: anything a production process needs.   May import: everything below it.
Start reading at runner.py. Names are imported when they are first used, because pytest loads the plugin in every project that has
Holdfast installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.model.clock import VirtualClock as VirtualClock
    from holdfast.testing.crashing import CrashDiffers as CrashDiffers
    from holdfast.testing.crashing import crash_everywhere as crash_everywhere
    from holdfast.testing.replays import ReplayDiffers as ReplayDiffers
    from holdfast.testing.replays import check_replays as check_replays
    from holdfast.testing.results import OperationMissing as OperationMissing
    from holdfast.testing.results import Result as Result
    from holdfast.testing.results import Seen as Seen
    from holdfast.testing.runner import NotYet as NotYet
    from holdfast.testing.runner import Runner as Runner

_WHERE = {
    "CrashDiffers": "holdfast.testing.crashing",
    "OperationMissing": "holdfast.testing.results",
    "NotYet": "holdfast.testing.runner",
    "ReplayDiffers": "holdfast.testing.replays",
    "Result": "holdfast.testing.results",
    "Runner": "holdfast.testing.runner",
    "Seen": "holdfast.testing.results",
    "VirtualClock": "holdfast.model.clock",
    "check_replays": "holdfast.testing.replays",
    "crash_everywhere": "holdfast.testing.crashing",
}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
