"""A test decides how long things take, and a slow machine changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from holdfast.model import clock


def measured_by(seconds: Callable[[], float]) -> AbstractContextManager[Any]:
    """Inside the `with` block, `monotonic` returns what `seconds()` returns, and `idle_seconds` returns 0, in the whole process."""
    return mock.patch.multiple(clock, _monotonic=seconds, _computed=seconds)
