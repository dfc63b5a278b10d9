"""Finds durable calls that an `async def` handler made and never awaited. Such a call has a number in the order of calls, but it never ran.
If the code of a context returns a result and has made such calls, the execution fails, and the error names the calls.

The scope keeps every call until the call begins. When the code of the context ends, a call that has not begun was not awaited, unless an
asyncio task has it: that task will still begin it. The scope closes the coroutines of the calls that were not awaited. So Python itself
prints no warning about them, and the result does not depend on the garbage collector.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from types import CodeType
from typing import Any, Final, NamedTuple

from holdfast.durable.author_lines import line_at
from holdfast.durable.exceptions import ExecutionError
from holdfast.durable.identifier import Identity, described
from holdfast.durable.plan import Plan

_SHOWN: Final = 3


class Unstarted(NamedTuple):
    """A durable call that has not begun, and where the author wrote it."""

    coroutine: Coroutine[Any, Any, Any]
    at: Identity | None
    """None for a `with_retry` without a child context, which is not an operation."""
    code: CodeType
    instruction: int

    def __str__(self) -> str:
        what = "with_retry" if self.at is None else described(self.at.type, self.at.sub_type, self.at.name)
        return f"{what} at {line_at(self.code, self.instruction)}"


Unstarteds = dict[Plan[Any], Unstarted]


def let_go(calls: Unstarteds) -> list[Unstarted]:
    """Close the coroutines of the calls that will not begin any more, and return these calls. Not closed and not returned are calls that an
    asyncio task will still begin, and calls whose coroutine is closed already. Afterwards `calls` is empty."""
    tasks = {task.get_coro() for task in asyncio.all_tasks()}
    left = [
        call for call in calls.values() if call.coroutine not in tasks and inspect.getcoroutinestate(call.coroutine) == inspect.CORO_CREATED
    ]
    for call in left:
        call.coroutine.close()
    calls.clear()
    return left


def not_awaited(forgotten: list[Unstarted]) -> ExecutionError:
    """The error with which the execution fails, because its code never awaited the calls in `forgotten`. The message names at most three of
    them."""
    places = "; ".join(map(str, forgotten[:_SHOWN]))
    more = f" and {len(forgotten) - _SHOWN} more" if len(forgotten) > _SHOWN else ""
    one = len(forgotten) == 1
    error = ExecutionError(
        f"{'A durable call was' if one else f'{len(forgotten)} durable calls were'} never awaited, so {'it' if one else 'they'} did not "
        f"run: {places}{more}. Write `await` in front of {'the call' if one else 'each call'}."
    )
    error.tells_line = True
    return error
