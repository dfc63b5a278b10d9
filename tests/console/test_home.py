"""The first page: what needs a person, what fails, what waits and why, what was done and spent; and the charts."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

import holdfast
from holdfast import AsyncDurableContext, durable_execution
from holdfast.console.charts import ChartBar, bars
from holdfast.console.sources.home import Count, HomeSource
from holdfast.console.sources.viewer import Viewer
from holdfast.model.clock import VirtualClock
from holdfast.model.enqueues import Enqueue
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import OutcomeStatus, Terms
from holdfast.model.ids import id_at
from holdfast.model.ledger import EntryState, LedgerEntry, expiry
from holdfast.model.life import new_execution
from holdfast.model.queues import QueueRow
from holdfast.model.schedules import Origin
from holdfast.model.verbs import Checkpoint, Start
from holdfast.queues.store_queues import StoreQueues
from holdfast.schedules.declarations import Schedule
from holdfast.schedules.store_schedules import Schedules
from holdfast.testing.stores.queue_writes import declare, ended, running
from holdfast.testing.stores.writes import LEASE, answers, checkpoint, live, step
from holdfast.workers.run_lookup import Caller
from tests.console.scene import Scene, plain
from tests.console.scene import scene as open_scene

HOSTILE = "<b>\u202e"


@durable_execution
async def order(event: dict[str, Any], context: AsyncDurableContext) -> str:
    if event.get("fails"):
        raise ValueError("the card was refused")
    return "done"


async def ran(scene: Scene, *inputs: dict[str, Any]) -> None:
    """Run executions to their ends."""
    async with holdfast.open(scene.where, functions=[order]) as engine:
        for number, given in enumerate(inputs):
            with contextlib.suppress(HoldfastError):
                await (await engine.start(order, given, name=f"n{number}")).result()


async def test_a_store_in_which_nothing_ran_tells_what_to_do_first(scene: Scene) -> None:
    async with scene.browser() as browser:
        page = (await browser.get()).text
    assert "Nothing has run in this store yet" in plain(page)
    assert page.count("data-copy=") == 3
    assert "holdfast new worker hello" in page
    assert f"--store {scene.where}" in page


async def test_the_first_page_counts_what_failed_with_links_to_the_list(scene: Scene) -> None:
    await ran(scene, {}, {}, {"fails": True})
    async with scene.browser() as browser:
        page = (await browser.get()).text
        said, charts = plain(page), (await browser.get("home/-/runs")).text
        failed = re.search(r'href="\./(runs\?q=error%3AValueError[^"]*)"', page)
        assert failed is not None
        assert "ValueError" in await browser.text(failed[1])
    assert "1 failed, of those started in the last hour" in said
    assert re.search(r"Error code 1 h 24 h ValueError 1 1 ", said)
    assert re.search(r"Worker, pipeline or function 1 h 24 h order 1 1 ", said)
    assert re.search(r"Started in the last hour Runs 3 runs 2 ok 1 failed 0 going on", plain(charts))
    assert re.search(r"UTC: \d started, \d ok, \d failed, 0 stopped, 0 going on", charts)


async def test_a_pipeline_does_not_fail_because_something_that_it_started_does(scene: Scene) -> None:
    await ran(scene, {"fails": True})
    with contextlib.closing(sqlite3.connect(scene.where)) as database, database:
        database.execute("UPDATE executions SET pipeline = 'flow'")
    async with scene.browser() as browser:
        said = await browser.text()
    assert re.search(r"Worker, pipeline or function 1 h 24 h order 1 1 ", said)
    assert "flow 1 1" not in said


async def test_what_waits_is_told_with_its_reason_and_a_missing_runner_first(scene: Scene) -> None:
    await ran(scene, {})
    for number in range(3):
        scene.start("nightly", name=f"w{number}")
    async with scene.browser() as browser:
        said = await browser.text()
    assert "nightly 1 is ready, but no runner has it. Start a runner that has it. 3" in said
    assert "No runner is alive: nothing runs until one starts." in said


async def test_a_paused_queue_and_a_schedule_that_comes_are_told(scene: Scene) -> None:
    await ran(scene, {})
    now = scene.clock.now()
    header = new_execution(id_at(now), "m", "send", "1", payload="1", now=now, terms=Terms())
    scene.store.commit([Start(header, "1", enqueue=Enqueue(queue="emails"))], now)
    StoreQueues(scene.store, scene.clock, id_at).pause("emails")
    Schedules(scene.store, scene.clock).add(Schedule("nightly", "send", cron="0 2 * * *"), origin=Origin.CLI)
    async with scene.browser() as browser:
        said = await browser.text()
    assert re.search(r"emails paused 1 0 ", said)
    assert re.search(r"nightly send .*02:00", said)


async def test_a_queue_that_is_paused_or_has_much_to_do_is_told_behind_any_number_of_idle_queues(scene: Scene) -> None:
    await ran(scene, {})
    queues, now = StoreQueues(scene.store, scene.clock, id_at), scene.clock.now()
    scene.store.declare([QueueRow(name=f"idle-{number:03}") for number in range(120)] + [QueueRow(name="z-paused")])
    for number, queue in enumerate(("z-busy", "z-busy", "z-less")):
        header = new_execution(id_at(now), f"m{number}", "send", "1", payload="1", now=now, terms=Terms())
        header = msgspec.structs.replace(header, tenant="acme" if queue == "z-busy" else None)
        scene.store.commit([Start(header, "1", enqueue=Enqueue(queue=queue))], now)
    queues.pause("z-paused")
    async with scene.browser() as browser:
        said = await browser.text()
    async with scene.browser("viewer", tenant="acme") as browser:
        own = await browser.text()
    assert re.search(r"z-paused paused 0 0 .*z-busy 2 0 .*z-less 1 0 ", said)
    assert "z-busy 2 0" in own
    assert "z-less" not in own
    assert "idle-" not in said


def test_parked_runs_of_a_tenant_are_counted_behind_any_number_of_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.console.sources.home.MOST_COUNTED", 3)
    declare(scene.store)
    for number, tenant in enumerate([None] * 5 + ["acme"]):
        header = running(scene.store, f"m{number}", tenant=tenant)
        ended(scene.store, header, OutcomeStatus.FAILED)
    viewer = Viewer(scene.store, scene.where, clock=scene.clock, ids=id_at, caller=Caller(), actor=None, tenant="acme")
    assert HomeSource(viewer).needs().parked == Count(1)


async def test_a_tenant_sees_its_own_work_and_its_own_money_only(tmp_path: Path) -> None:
    clock = VirtualClock(1_700_000_000_000)
    with open_scene(tmp_path, clock) as scene:
        scene.start("acme-only", tenant="acme", name="secret-of-acme")
        scene.start("zoo-only", tenant="zoo")
        scene.store.join("maker", LEASE)
        for tenant, nanos in (("acme", 1_500_000_000), ("zoo", 250_000_000)):
            write = checkpoint(live(scene.store, tenant), step("s"))
            assert isinstance(write, Checkpoint)
            answers(scene.store, msgspec.structs.replace(write, ledger=_spent(tenant, nanos, clock.now())))
        async with scene.browser("viewer", tenant="zoo") as browser:
            other = await browser.text()
        async with scene.browser("viewer", tenant="acme") as browser:
            own = await browser.text()
        async with scene.browser("viewer") as browser:
            everyone = await browser.text()
    assert "acme" not in other
    assert "$0.25 today (UTC)" in other
    assert "acme-only 1 is ready" in own
    assert "$1.50 today (UTC)" in own
    assert "$1.75 today (UTC)" in everyone


def _spent(tenant: str, nanos: int, now: int) -> tuple[LedgerEntry, ...]:
    who: dict[str, Any] = {"tenant": tenant, "worker": "w", "run": tenant, "root": tenant, "path": tenant, "call": "c", "model": "m"}
    when: dict[str, Any] = {"at": now, "expires_at": expiry(now, 396)}
    begun = LedgerEntry(**who, **when, state=EntryState.RESERVED, held_tokens=20, held_nanos=nanos)
    return begun, LedgerEntry(**who, **when, state=EntryState.SETTLED, input_tokens=7, nanos=nanos, held_tokens=-20, held_nanos=-nanos)


async def test_a_tenant_is_not_told_where_the_store_is(scene: Scene) -> None:
    async with scene.browser("viewer", tenant="zoo") as browser:
        page = (await browser.get()).text
    assert "Nothing has run" in page
    assert scene.where not in page


async def test_the_parts_of_an_open_page_are_asked_for_by_themselves(scene: Scene) -> None:
    await ran(scene, {"fails": True})
    async with scene.browser() as browser:
        assert plain((await browser.get("home/-/needs")).text).startswith("0 wait for a decision")
        body = (await browser.get("home/-/body")).text
    assert "<html" not in body
    assert "What fails" in body


# --- charts


def test_a_chart_is_well_formed_and_has_no_style_and_shows_the_smallest_part() -> None:
    text = str(bars([ChartBar(f"a {HOSTILE}", (("ok", 1000), ("failed", 1))), ChartBar("b", ()), ChartBar("c", (("ok", -5),))], HOSTILE))
    drawn = ElementTree.fromstring(text)
    failed = [rect for rect in drawn.iter("rect") if rect.get("class") == "b-failed"]
    assert "style" not in text
    assert "\u202e" not in text
    assert len(failed) == 1
    assert float(failed[0].get("height", "0")) >= 1.5
    assert all(float(rect.get("y", "0")) >= 0 for rect in drawn.iter("rect"))


def test_a_kind_that_is_no_word_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a kind"):
        bars([ChartBar("x", (('x" onload="', 1),))], "x")
