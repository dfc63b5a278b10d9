"""One execution's mistake is its own, over HTTP too: what another tenant asks in the same batch is answered as if nothing had happened."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.durable import durable_execution
from holdfast.engine.writer import Writer
from holdfast.model.errors import HoldfastError, WriteFailed
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.operations import Action, Failure, Type, Update
from holdfast.model.verbs import Answer, Checkpoint
from holdfast.store.sqlite.store import SqliteStore
from tests.surface.http_functions import echo
from tests.surface.http_server import SilentHost, served


@durable_execution(execution_timeout=900)
def mistaken(event: Any, context: Any) -> None:
    """Gives a step a name that is not a text."""
    context.step(lambda _: None, name=5)


def test_a_function_that_names_a_step_wrongly_fails_alone_while_another_tenant_asks(tmp_path: Path) -> None:
    with served(tmp_path / "store.db", [mistaken, echo]) as server, ThreadPoolExecutor(8) as threads:
        wrong = [threads.submit(server.invoke, "mistaken:$LATEST", b"{}", TenantId="red") for _ in range(10)]
        right = [threads.submit(server.invoke, "echo:$LATEST", b"%d" % n, TenantId="blue") for n in range(30)]
        assert [answer.result()["Payload"] for answer in right] == [b"%d" % n for n in range(30)]
        for answer in wrong:
            told = answer.result()
            assert told["FunctionError"] == "Unhandled"
            assert b"name is 5 (int); it must be a str" in told["Payload"]


BUG = Update(id="s", type=Type.STEP, action=Action.FAIL, error=cast("Failure", 5))
"""What only a bug of ours could write: it gets past every check, and fails when it is decided."""


def test_a_request_of_another_tenant_that_shares_its_batch_with_a_bug_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = SilentHost(quick=["echo"])
    batches: list[list[str]] = []
    commit = SqliteStore.commit

    def seen(self: SqliteStore, batch: Any, now: int) -> Any:
        batches.append([type(write).__name__ for write in batch])
        return commit(self, batch, now)

    monkeypatch.setattr(SqliteStore, "commit", seen)
    with served(tmp_path / "store.db", [mistaken, echo], host=host) as server, ThreadPoolExecutor(2) as threads:
        server.invoke("mistaken:$LATEST", b"{}", TenantId="red", InvocationType="Event")
        live = host.next()
        writer: Writer = server.api.engine._writer
        with writer._turn:  # nothing is written until both are queued
            asked = threads.submit(server.invoke, "echo:$LATEST", b"1", TenantId="blue", DurableExecutionName="beside")
            server.do(lambda: _queued(writer, 1))
            bug = server.do(lambda: _submitted(writer, Checkpoint(live.position, (BUG,))))
            server.do(lambda: _queued(writer, 2))
        server.do(lambda: _flushed(writer))
        told = asked.result()
        assert (told["StatusCode"], told["Payload"]) == (200, b"1")
        assert isinstance(server.do(lambda: bug), WriteFailed)
        assert ["Start", "Checkpoint"] in batches, "they shared a batch"
        assert server.find(told["DurableExecutionArn"])["Status"] == "SUCCEEDED"
        live.end(server, Outcome(OutcomeStatus.SUCCEEDED, "2"))
        assert server.ended(live.arn)["Result"] == "2", "and the one with the bug goes on"


async def _queued(writer: Writer, count: int) -> None:
    async with asyncio.timeout(20):
        while len(writer._queue) < count:
            await asyncio.sleep(0)


async def _submitted(writer: Writer, write: Checkpoint) -> asyncio.Future[Answer | HoldfastError]:
    answer: asyncio.Future[Answer | HoldfastError] = asyncio.get_running_loop().create_future()
    writer.submit(write, answer.set_result)
    return answer


async def _flushed(writer: Writer) -> None:
    writer._plan_flush()
