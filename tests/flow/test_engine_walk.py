"""The way of one execution through the code stays short: from `engine.start` over a step and its commit to the result.

Two figures are measured. A file *carries control* if one of its functions is on the stack wherever control is handed on: at an SQL
statement, a call of the author's code, a callback or task of the loop, or an answer to a future. A *callback hop* is a call of a function
that its caller does not name: one that was handed over as a value. docs/internals/engine.md shows this walk to readers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import holdfast
from holdfast import AsyncDurableContext, StepContext, durable_execution
from holdfast.service.engines import OpenEngine

_SOURCE: Final = str(Path(holdfast.__file__).parent) + "/"
_HANDS_ON: Final = {"execute", "create_task", "call_soon", "call_later", "set_result", "set_exception"}
_ASIDE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""These are resumed where they stopped, not called back."""


@durable_execution
async def order(event: Any, context: AsyncDurableContext) -> int:
    async def pay(step: StepContext) -> int:
        return 7

    return await context.step(pay)


class Walk:
    """What happens on this thread while it is measured."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.hops: list[tuple[str, str]] = []

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """One call, as `sys.setprofile` tells of it."""
        code, stack = frame.f_code, [above.f_code.co_filename for above in _stack(frame)]
        if f"{_SOURCE}engine/scheduler.py" in stack:
            return  # a round that happens to fall into this time
        name = getattr(argument, "__name__", "") if event == "c_call" else code.co_name
        if event in ("call", "c_call") and (name in _HANDS_ON or code.co_filename == __file__):
            self.files.update(path for path in stack if path.startswith(_SOURCE))
        if event == "call" and code.co_filename.startswith(_SOURCE) and not code.co_flags & _ASIDE and frame.f_back is not None:
            caller = frame.f_back.f_code
            if caller.co_filename.startswith((f"{_SOURCE}engine/", f"{_SOURCE}hosts/")) and not _is_named(code.co_name, caller.co_names):
                self.hops.append((caller.co_qualname, code.co_qualname))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_named(name: str, names: tuple[str, ...]) -> bool:
    return name in names or name.startswith(("__", "<listcomp", "<genexpr", "<dictcomp"))


async def test_an_execution_goes_through_few_files_and_four_callbacks(tmp_path: Path) -> None:
    walk = Walk()
    async with holdfast.open(tmp_path / "store.db", functions=[order]) as engine:
        assert isinstance(engine, OpenEngine)
        assert await (await engine.start(order)).result() == 7  # what is made once is made
        sys.setprofile(walk.profile)
        try:
            result = await (await engine.start(order)).result()
        finally:
            sys.setprofile(None)
    assert result == 7
    assert len(walk.files) <= 17, sorted(walk.files)
    reads = ("DurableFunction._event", "DurableFunction._text")  # the author's types, not the engine's control
    back = [hop for hop in walk.hops if hop[1] not in reads]
    assert [called for _, called in back] == [
        "Invocations._started",
        "AsyncState._written",
        "Invocations._ended",
        "Invocations._settled",
    ], back
