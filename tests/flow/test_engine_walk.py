"""The way of one execution through the code stays short: from `engine.start` over a step and its commit to the result.

Two figures are measured. A file *carries control* if one of its functions is called from another file (or by the event loop, or by the
caller) and itself calls a function of another file. A reader must open such a file to follow the walk; a function that calls no other file
is read as a word. A *callback hop* is a call, by the project's code or by the event loop, of a function that its caller does not name: one
that was handed over as a value. (A function that an object keeps under the function's own name counts as named, such as
`DurableFunction.succeeded`.) Only hops on the way back count, from a commit or an end to those that wait for it; `_FORWARD` has the others.

The tree of 070402cb had 25 files, 45 functions and 8 different hops by this ruler. docs/internals/engine.md shows this walk to readers.
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
_ASIDE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""These are resumed where they stopped, not called back."""


@durable_execution
async def order(event: Any, context: AsyncDurableContext) -> int:
    async def pay(step: StepContext) -> int:
        return 7

    return await context.step(pay)


_FORWARD: Final = {
    "Writer._flush": "the loop begins a commit at the end of its tick",
    "Decisions._entry": "the store lets each write decide",
    "execution_row": "the store makes a row",
    "touched_row": "the store makes a row",
    "changed_row": "the store makes a row",
    "operation_row": "the store makes a row",
    "DurableFunction._event": "the author's types",
    "DurableFunction._text": "the author's types",
    "LoopStragglers._write": "a timer writes deferred updates",
}
"""Hops that are not on the way back, and what they do."""
Place = tuple[str, str]
"""A file and a function in it."""


class Walk:
    """What happens on this thread while it is measured."""

    def __init__(self) -> None:
        self.entered: set[Place] = set()
        self.leaving: set[Place] = set()
        self.hops: list[tuple[str, str]] = []

    @property
    def files(self) -> set[str]:
        """The files that carry control."""
        return {file for file, _ in self.entered & self.leaving}

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """One call, as `sys.setprofile` tells of it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_SOURCE) or code.co_name.startswith("<"):
            return
        if any(above.f_code.co_filename == f"{_SOURCE}engine/scheduler.py" for above in _stack(frame)):
            return  # a round that happens to fall into this time
        above = next((one for one in _stack(frame.f_back) if not one.f_code.co_name.startswith("<")), None)
        caller = None if above is None else above.f_code
        if caller is None or caller.co_filename != code.co_filename:
            self.entered.add((code.co_filename, code.co_qualname))
            if caller is not None and caller.co_filename.startswith(_SOURCE):
                self.leaving.add((caller.co_filename, caller.co_qualname))
        if caller is None or code.co_flags & _ASIDE or _is_named(code.co_name, caller.co_names):
            return
        if code.co_qualname not in _FORWARD:
            self.hops.append((caller.co_qualname, code.co_qualname))


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_named(name: str, names: tuple[str, ...]) -> bool:
    return name in names or name.startswith("__")


async def test_an_execution_goes_through_eighteen_files_and_four_callbacks(tmp_path: Path) -> None:
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
    assert len(walk.files) <= 18, sorted(walk.files)
    assert [called for _, called in walk.hops] == [
        "Invocations._started",
        "AsyncState._written",
        "Invocations._ended",
        "Invocations._settled",
    ], walk.hops
