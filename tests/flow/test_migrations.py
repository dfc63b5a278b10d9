"""Migrations: what a release left in flight goes on under the next one, on both stores, and a migrated store is what a fresh one is."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from holdfast import StatusSignal
from holdfast.contract.codes import ResponseStatus
from holdfast.model.errors import ExecutionFailed
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.store.backends import open_store
from holdfast.store.postgres import schema_migrations as postgres
from holdfast.store.sqlite import schema_migrations as sqlite
from holdfast.workers.approvals import Decision
from holdfast.workers.service import WorkerService
from tests.flow.harness import eventually, pending, types
from tests.histories import wire
from tests.postgres import new_schema
from tests.store import flight
from tests.store.released import KINDS, POSTGRES, SQLITE, apply_after, migrated, old_postgres, old_sqlite, postgres_shape, sqlite_shape
from tests.workers.harness import LOCAL

SUCCEEDED = "ExecutionSucceeded"


@pytest.fixture(params=KINDS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store of a release, with executions in flight."""
    kind, _, version = request.param.partition("-")
    return str(old_sqlite(tmp_path, int(version))) if kind == "sqlite" else old_postgres(int(version))


# --- what is in flight -------------------------------------------------------------------------------------------------------


async def test_everything_in_flight_in_a_store_of_a_release_comes_to_its_right_end(old: str, tmp_path: Path) -> None:
    with contextlib.closing(open_store(old, "migrator", migrate=True)) as store:
        assert len(store.dead(flight.LEASE_UNTIL + 1)) == 1, "the runner that was killed in the middle of a step"
    flight.done.clear()
    signals: list[StatusSignal] = []
    async with flight.opened(old, tmp_path, flight.MADE_AT + flight.HOUR // 2, signals.append, skipping=False) as (engine, service, clock):
        await _answer(engine, service)
        clock.skipping = True
        ended = {
            name: await (await named(engine, name, f"{name}-1")).result() for name in ("bill", "ask", "parent", "fan", "retried", "busy")
        }
        assert ended == {
            "bill": ["charged 42", "shipped"],
            "ask": "yes",
            "parent": {"child of": {"order": 42}},
            "fan": [2, 4, 6],
            "retried": "now",
            "busy": ["first", "second"],
        }
        await _told(engine)
        await eventually(lambda: len(signals) == 12 + 8)
    assert sorted(flight.done) == ["flaky", "second", "ship"], "what was done under the old release is not done again"
    assert [signal.number for signal in signals] == list(range(1, 21))
    assert [(signal.name, signal.status) for signal in signals[:4]] == [
        ("right", "RUNNING"),
        ("right", "SUCCEEDED"),
        ("wrong", "RUNNING"),
        ("wrong", "FAILED"),
    ]


async def named(engine: OpenEngine, function: str, name: str) -> OpenExecution:
    """An execution of the old release."""
    found = engine._store.find_named(function, name)
    assert found is not None
    return await engine.get(found.id)


async def _answer(engine: OpenEngine, service: WorkerService) -> None:
    """What people do: they answer the callback and decide the approval."""
    asking = await named(engine, "ask", "ask-1")
    await engine.succeed_callback((await pending(asking)).callback_id or "", "yes")
    (approval,) = service.approvals(LOCAL)
    await service.decide(approval.approval_id, Decision(verdict="approve", decided_by="bob", decided_at=1), LOCAL)
    response = await service.response(approval.run_id, LOCAL)
    assert (response.status, response.outputs) == (ResponseStatus.OK, {"paid": {"cents": 5}})


async def _told(engine: OpenEngine) -> None:
    """What histories say: the part of the old release, and ours behind it, without a gap."""
    billed = types(wire(await (await named(engine, "bill", "bill-1")).history()))
    assert billed[:5] == ["ExecutionStarted", "StepStarted", "StepSucceeded", "WaitStarted", "InvocationCompleted"]
    assert billed[5:] == ["WaitSucceeded", "StepStarted", "StepSucceeded", "InvocationCompleted", SUCCEEDED]
    assert types(wire(await (await named(engine, "busy", "busy-1")).history())).count("StepStarted") == 2
    assert await (await named(engine, "over", "right")).result() == "over"
    with pytest.raises(ExecutionFailed, match="went wrong"):
        await (await named(engine, "over", "wrong")).result()


def test_credentials_counters_and_the_seal_are_as_they_were(old: str) -> None:
    migrated(old)
    with contextlib.closing(open_store(old, "here")) as store:
        assert tuple(store.credentials()) == flight.CREDENTIALS
        assert [(counter.key, counter.amount) for counter in store.counters(["day/2026-01-01/default/runs"])] == [
            ("day/2026-01-01/default/runs", 1)
        ]
        assert store.hosted("bill")


# --- a migrated store is what a fresh one is ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SQLITE)
def test_a_migrated_file_equals_a_fresh_one(version: int, tmp_path: Path) -> None:
    path = old_sqlite(tmp_path, version)
    migrated(str(path))
    migrated(str(tmp_path / "fresh.db"))
    assert sqlite_shape(path) == sqlite_shape(tmp_path / "fresh.db")
    assert sqlite_shape(path)["pragmas"][0] == (sqlite.SCHEMA_VERSION,)


@pytest.mark.parametrize("version", POSTGRES)
def test_a_migrated_schema_equals_a_fresh_one(version: int) -> None:
    old, fresh = old_postgres(version), new_schema()
    migrated(old)
    apply_after(old)
    migrated(fresh)
    assert postgres_shape(old) == postgres_shape(fresh)
    assert postgres_shape(old)["metas"]["schema"] == str(postgres.SCHEMA_VERSION)
