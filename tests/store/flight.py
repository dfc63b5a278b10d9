"""Executions in flight, as a killed runner leaves them in a store: the scene that the store of each release was made from.

`python -m tests.store.flight FOLDER` makes the stores of the code it runs with; tests/data/stores/README.md says how and when. The tests of
migrations open such a store with today's code and let everything that is in flight finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import holdfast
from holdfast import AsyncDurableContext, CallbackConfig, Duration, StepConfig, StepContext, durable_execution
from holdfast.durable.retries import RetryDecision
from holdfast.model.clock import VirtualClock
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.ids import Ids
from holdfast.model.signals import Subscriber
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Effect
from tests.flow.harness import eventually, pending
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request

MADE_AT = 1_767_225_600_000
HOUR = 3_600_000
LEASE_UNTIL = MADE_AT + 30_000
"""A runner with a virtual clock has a lease without end; a real one's ends soon after its death."""
SCHEMA = "released"
_NOT_DATA = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
"""How lines of a dump begin that another release of Postgres may not know."""
CREDENTIALS = (
    Credential(
        id="HFKAFLIGHT",
        kind=CredentialKind.ACCESS_KEY,
        secret="sealed",
        roles=(Role.OPERATOR, Role.VIEWER),
        tenant="acme",
        created_at=MADE_AT,
        expires_at=MADE_AT + 999 * HOUR,
    ),
    Credential(id="hf_ops", kind=CredentialKind.TOKEN, secret="hash", roles=(Role.ADMIN,), note="ops", created_at=MADE_AT),
)


@durable_execution
async def bill(event: Any, context: AsyncDurableContext) -> Any:
    """Waits for a timer between two steps."""
    charged = await context.step(noted("charge", f"charged {event['order']}"), name="charge")
    await context.wait(Duration.from_hours(1), name="an hour")
    return [charged, await context.step(noted("ship", "shipped"), name="ship")]


@durable_execution
async def ask(event: Any, context: AsyncDurableContext) -> Any:
    """Waits for a callback."""
    config = CallbackConfig(timeout=Duration.from_days(9), heartbeat_timeout=Duration.from_days(8))
    return await (await context.create_callback(name="answer", config=config)).result()


@durable_execution
async def child(event: Any, context: AsyncDurableContext) -> Any:
    await context.wait(Duration.from_hours(2))
    return {"child of": event}


@durable_execution
async def parent(event: Any, context: AsyncDurableContext) -> Any:
    """Waits for an execution that it invoked."""
    return await context.invoke("child", event, name="work")


@durable_execution
async def fan(event: Any, context: AsyncDurableContext) -> Any:
    """Waits in three branches, each a context of its own."""

    async def branch(context: AsyncDurableContext, item: int, index: int, _: object) -> Any:
        doubled = await context.step(noted(f"double {item}", item * 2), name="double")
        await context.wait(Duration.from_hours(3 + index))
        return doubled

    return (await context.map([1, 2, 3], branch, name="all")).get_results()


@durable_execution
async def retried(event: Any, context: AsyncDurableContext) -> Any:
    """Its step has failed once and is to be tried again."""

    def flaky(step: StepContext) -> str:
        done.append("flaky")
        if dying:
            raise ValueError("not yet")
        return "now"

    config = StepConfig(retry_strategy=lambda error, attempt: RetryDecision.retry(Duration.from_hours(1)))
    return await context.step(flaky, name="flaky", config=config)


@durable_execution
async def busy(event: Any, context: AsyncDurableContext) -> Any:
    """Its runner is killed while it is inside the second step."""
    first = await context.step(noted("first", "first"), name="first")

    async def second(step: StepContext) -> str:
        done.append("second")
        if dying:
            await asyncio.Event().wait()
        return "second"

    return [first, await context.step(second, name="second")]


@durable_execution
async def over(event: Any, context: AsyncDurableContext) -> Any:
    """Is closed, and kept until its retention ends."""
    if event == "wrong":
        raise ValueError("this went wrong")
    return await context.step(noted("over", "over"), name="over")


FUNCTIONS = (bill, ask, child, parent, fan, retried, busy, over)
dying: list[bool] = []
"""Not empty in the process that makes the stores."""
done: list[str] = []
"""The steps that this process has run."""


def noted(name: str, result: Any) -> Callable[[StepContext], Any]:
    def body(_: StepContext) -> Any:
        done.append(name)
        return result

    return body


async def paying(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"paid": await ctx.tools.pay(cents=inputs["cents"])}


@contextlib.asynccontextmanager
async def opened(
    where: str, folder: Path, now: int, subscriber: Subscriber, *, skipping: bool
) -> AsyncIterator[tuple[OpenEngine, WorkerService, VirtualClock]]:
    """An engine with the functions above and a worker whose call needs an approval."""

    async def unknown(worker_id: str, package: str) -> Any:
        raise AssertionError("every package of these tests is served")

    pay = Counted("pay", Effect.WRITE, lambda cents: {"cents": cents})
    policy = Policy(caps=DayCaps(runs=100))
    service = WorkerService(policy=policy, artifacts=Artifacts(Folder(folder), policy.artifact_bytes), find=unknown)
    service.serve(InlineWorker(contract("pay"), paying, pay, approvals=frozenset({"pay"})))
    clock = VirtualClock(now, skipping=skipping)
    settings = Settings(clock=clock, ids=Ids(Random(now)), tune=False)
    functions = [*FUNCTIONS, *service.functions()]
    async with holdfast.open(where, functions=functions, subscribers={"billing": subscriber}, settings=settings) as engine:
        service.attach(engine._engine)
        yield engine, service, clock


async def fly(where: str, folder: Path) -> None:
    """Bring everything into flight, and die."""
    dying.append(True)
    store = open_store(where, "maker")
    for credential in CREDENTIALS:
        store.put_credential(credential)
    store.close()

    def undelivered(signal: holdfast.StatusSignal) -> None:
        raise ValueError("the subscriber is away")

    async with opened(where, folder, MADE_AT, undelivered, skipping=False) as (engine, service, _):
        for event in ("right", "wrong"):
            ended = await engine.start(over, event, name=event)
            with contextlib.suppress(holdfast.HoldfastError):
                await ended.result()
        flying = {f.name: await engine.start(f, {"order": 42}, name=f"{f.name}-1") for f in (bill, ask, parent, fan, retried, busy)}
        await service.invoke(request(cents=5, idempotency_key="case-7"), LOCAL)
        for name in ("bill", "ask", "parent", "fan", "retried"):
            await pending(flying[name])
        await eventually(lambda: "second" in done)
        os._exit(0)


def made(where: str, folder: Path) -> None:
    """In a process of its own, because it dies of it."""
    subprocess.run([sys.executable, "-m", "tests.store.flight", "fly", where, str(folder)], check=True)


def make_sqlite(folder: Path) -> None:
    from holdfast.store.sqlite.schema_migrations import SCHEMA_VERSION

    path = folder / "made.db"
    made(str(path), folder / "artifacts")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE runners SET lease_until = {LEASE_UNTIL}")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (folder / f"sqlite-{SCHEMA_VERSION}.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def make_postgres(folder: Path) -> None:
    from holdfast.store.postgres.schema_migrations import SCHEMA_VERSION
    from tests.postgres import database, new_schema, program

    where = new_schema().rpartition("schema=")[0] + f"schema={SCHEMA}"
    made(where, folder / "artifacts")
    with database() as connection:
        connection.execute(f"UPDATE {SCHEMA}.runners SET lease_until = {LEASE_UNTIL}".encode())
    asked = [program("pg_dump"), "--inserts", "--no-owner", "--no-privileges", f"--schema={SCHEMA}"]
    dump = subprocess.run([*asked, where.partition("&schema=")[0]], check=True, capture_output=True, text=True).stdout
    kept = "\n".join(line for line in dump.splitlines() if line and not line.startswith(_NOT_DATA))
    (folder / f"postgres-{SCHEMA_VERSION}.sql.gz").write_bytes(gzip.compress(kept.encode(), mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "fly":
        asyncio.run(fly(sys.argv[2], Path(sys.argv[3])))
    else:
        make_sqlite(Path(sys.argv[1]))
        make_postgres(Path(sys.argv[1]))
