"""The journal of durable: operations found by what they are, for the runtimes that are built on top of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.journal import Journal, identity_of, started, succeeded
from holdfast.model.clock import VirtualClock
from holdfast.model.operations import SubType, Type
from holdfast.service.settings import Settings

NOTE = identity_of(Type.STEP, "Note", "note", "first")
LATER = identity_of(Type.STEP, "Note", "note", "second")
NEVER = identity_of(Type.STEP, "Note", "note", "never")
PAUSE = identity_of(Type.WAIT, SubType.WAIT.value, "pause", 1)


@pytest.mark.parametrize("resting", [1000, 0], ids=["resting", "replayed"])
async def test_what_a_journal_wrote_is_found_by_its_identity_in_the_next_invocation(resting: int) -> None:
    invocations: list[str | None] = []

    @holdfast.durable_execution
    async def noting(event: Any, context: AsyncDurableContext) -> list[str | None]:
        journal = Journal.of(context)
        known = journal.find(NOTE)
        invocations.append(None if known is None else known.result)
        if known is None:
            journal.write_first(started(PAUSE, wait_seconds=60))
            assert not journal.has_updates
            await journal.write(succeeded(NOTE, '"written"'))
        heard: list[str] = []
        journal.when_closed(PAUSE, lambda: heard.append("over"))
        await journal.until_closed(PAUSE)
        assert journal.is_closed(PAUSE)
        assert heard == ["over"]
        await journal.write(succeeded(LATER, '"more"'))
        return [operation.result for at in (NOTE, LATER) if (operation := journal.find(at)) is not None]

    async with holdfast.open(":memory:", functions=[noting], settings=Settings(clock=VirtualClock(), resting=resting)) as engine:
        assert await (await engine.start(noting, {})).result() == ['"written"', '"more"']
    assert invocations == ([None] if resting else [None, '"written"'])


@pytest.mark.parametrize("resting", [1000, 0], ids=["resting", "replayed"])
async def test_an_operation_that_was_never_begun_keeps_no_other_from_being_waited_for(resting: int) -> None:
    @holdfast.durable_execution
    async def waiting(event: Any, context: AsyncDurableContext) -> bool:
        journal = Journal.of(context)
        if journal.find(PAUSE) is None:
            await journal.write(started(PAUSE, wait_seconds=60))
        await journal.until_closed(NEVER, PAUSE)
        return journal.is_closed(PAUSE)

    async with holdfast.open(":memory:", functions=[waiting], settings=Settings(clock=VirtualClock(), resting=resting)) as engine:
        async with asyncio.timeout(20):
            assert await (await engine.start(waiting, {})).result() is True


def test_the_same_words_give_the_same_identity_and_others_another() -> None:
    assert identity_of(Type.STEP, "Note", "note", "first") == NOTE
    assert len({at.operation_id for at in (NOTE, LATER, identity_of(Type.STEP, "Note", "note", "first", parent=PAUSE))}) == 3
