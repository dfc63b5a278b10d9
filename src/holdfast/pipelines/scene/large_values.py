"""Computations on values whose size a caller or a worker chose: rules and merges. Rules on a list of 100,000 elements take a second, and
merges of several such values some seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.model import codec
from holdfast.model.threads import Purpose, in_thread

P = ParamSpec("P")
T = TypeVar("T")
_AT_ONCE: Final = 1024


async def computed(value: Any, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call whose time depends on the size of `value`. If the value is large, the call is made in a thread, so that the
    event loop does not wait."""
    if codec.at_least(value, _AT_ONCE) <= _AT_ONCE:
        return call(*args, **kwargs)
    return await in_thread(Purpose.WORK, call, *args, **kwargs)
