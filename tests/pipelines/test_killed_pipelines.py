"""`kill -9` of the runner, of bodies and of tools in the middle of pipelines: nothing is done twice, and each run ends as without it.

A real server counts by idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.service.client import Client
from tests.crash.scene import until
from tests.pipelines.paying import ENOUGH_SECONDS, Payday, PaydayScene, payday_scene
from tests.postgres import new_schema
from tests.workers.processes import end
from tests.workers.shop import a_shop

pytestmark = [pytest.mark.timeout(ENOUGH_SECONDS), pytest.mark.long]

HAPPENED = ("done", "answered")
Make = Callable[[str], PaydayScene]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as ends:
        shop = ends.enter_context(a_shop())

        def make(store: str) -> PaydayScene:
            made = ends.enter_context(payday_scene(tmp_path, shop, store))
            made.another()
            made.client = Client.open(store)
            return made

        yield make


def days(*told: str) -> list[Payday]:
    """`moment/place` of each."""
    return [Payday(f"{place}-{moment}", moment, place) for moment, place in (each.split("/") for each in told)]


STORES = [pytest.param("s.db", id="sqlite"), pytest.param(None, id="postgres")]
WHERE = ("before/first", "done/rest", "answered/last", "done/undo")


def store_of(name: str | None, folder: Path) -> str:
    return new_schema() if name is None else str(folder / name)


@pytest.mark.parametrize("target", ["runner", "all"])
@pytest.mark.parametrize("store", STORES)
def test_after_the_death_of_the_runner_each_pipeline_ends_and_nothing_is_done_twice(
    scene: Make, tmp_path: Path, target: str, store: str | None
) -> None:
    at = scene(store_of(store, tmp_path))
    (runner,) = at.runners
    cases = days(*WHERE) if target == "runner" else days("received/first", "before/rest", "done/last", "answered/undo")
    at.begin(runner, cases)
    if target == "runner":
        runner.kill()
    else:
        runner.kill_all()
    for day in cases:
        assert at.shop.effects_of(day.held) == (day.moment in HAPPENED), "the blow came at its moment"
        at.shop.let_go(day.held, lost=True)
    runner = at.another()
    for day, number in [(day, at.ask(runner, day)) for day in cases]:
        at.check(day, runner.answer(number), resent=int(day.moment not in HAPPENED))


@pytest.mark.parametrize("store", STORES)
def test_a_killed_body_of_a_node_is_tried_again_and_its_call_counts(scene: Make, tmp_path: Path, store: str | None) -> None:
    at = scene(store_of(store, tmp_path))
    (runner,) = at.runners
    cases = days(*WHERE)
    numbers = at.begin(runner, cases)
    for pid in runner.bodies():
        end(pid)
    for day in cases:
        at.shop.let_go(day.held)
    for day, number in zip(cases, numbers, strict=True):
        at.check(day, runner.answer(number), resent=0)


@pytest.mark.parametrize("store", STORES)
def test_a_killed_tool_of_a_node_leaves_a_call_that_is_found_out(scene: Make, tmp_path: Path, store: str | None) -> None:
    at = scene(store_of(store, tmp_path))
    (runner,) = at.runners
    cases = days(*WHERE)
    numbers = at.begin(runner, cases)
    for pid in runner.tool_processes():
        end(pid)
    for day in cases:
        at.shop.let_go(day.held, lost=True)
    for day, number in zip(cases, numbers, strict=True):
        at.check(day, runner.answer(number))


@pytest.mark.parametrize("store", STORES)
def test_two_runners_share_a_store_and_one_goes_on_with_what_the_other_began(scene: Make, tmp_path: Path, store: str | None) -> None:
    """Each of them has pipelines under way when one dies. The other one finishes them all, at once and without being asked."""
    at = scene(store_of(store, tmp_path))
    first, second = at.runners[0], at.another()
    mine, others = days("done/rest", "before/undo"), [Payday("b-first", "done", "first"), Payday("b-last", "answered", "last")]
    at.begin(first, mine)
    kept = at.begin(second, others)
    first.kill()
    for day in mine:
        at.shop.let_go(day.held, lost=True)
    for day, number in [(day, at.ask(second, day)) for day in mine]:  # the same keys find the same runs
        at.check(day, second.answer(number))
    for day in others:
        at.shop.let_go(day.held)
    for day, number in zip(others, kept, strict=True):
        at.check(day, second.answer(number))


@pytest.mark.parametrize("store", STORES)
def test_a_restarted_pipeline_survives_the_death_of_its_runner_and_pays_nothing_twice(
    scene: Make, tmp_path: Path, store: str | None
) -> None:
    """The first run fails and takes its first payment back. The restart pays that one again, dies there, and reuses all the others."""
    at = scene(store_of(store, tmp_path))
    day = Payday("again", "done", "undo")
    failed = at.runners[0].answer(at.ask(at.runners[0], day))
    assert failed["error"]["error_code"] == "broken_part"
    assert {order: at.shop.effects_of(order) for order in day.effects} == day.effects
    at.shop.hold(day.first, "done")
    inputs = {**day.inputs, "fails": False}
    header = at.client.restarts.restart(at.client.restarts.prepare(failed["run_id"], inputs=inputs))
    at.shop.wait_for(day.first, "done")
    at.runners[0].kill()
    at.shop.let_go(day.first, lost=True)
    runner = at.another()
    response = runner.answer(runner.ask("payday", inputs, key=day.name))  # the key leads to the restart
    assert (response["run_id"], response["status"], response["outputs"]["rest"]) == (header.id, "ok", day.orders)
    assert {order: at.shop.effects_of(order) for order in day.effects} == {**day.effects, day.first: 2}


@pytest.mark.parametrize("store", STORES)
def test_a_restart_that_would_pay_again_asks_and_pays_by_the_answer_though_its_runner_dies(
    scene: Make, tmp_path: Path, store: str | None
) -> None:
    """Two restarts want to pay another order than the runs before them. The runner dies while a person is asked, and again after that."""
    at = scene(store_of(store, tmp_path))
    days = {"send": Payday("send", "done"), "keep": Payday("keep", "done")}
    before = {action: at.runners[0].answer(at.ask(at.runners[0], day)) for action, day in days.items()}
    inputs = {action: {**day.inputs, "last": f"{action}-other"} for action, day in days.items()}
    for action, response in before.items():
        at.client.restarts.restart(at.client.restarts.prepare(response["run_id"], inputs=inputs[action]))
    until(lambda: len(list(at.client.approvals.list())) == 2, "both restarts to ask")
    at.runners[0].kill()
    assert {at.shop.effects_of(f"{action}-other") for action in days} == {0}
    for approval in at.client.approvals.list():
        assert isinstance(approval.arguments, dict)
        action = approval.arguments["now"]["order"].partition("-")[0]
        assert approval.arguments["before"] == {"order": days[action].last}
        at.client.approvals.decide(approval.approval_id, "answer", result={"action": action})
    at.shop.hold("send-other", "done")
    second = at.another()
    at.shop.wait_for("send-other", "done")
    second.kill_all()
    at.shop.let_go("send-other", lost=True)
    third = at.another()
    ended = {action: third.run("payday", inputs[action], key=day.name) for action, day in days.items()}
    assert {action: response["status"] for action, response in ended.items()} == dict.fromkeys(days, "ok")
    assert {action: response["outputs"]["last"] for action, response in ended.items()} == {"send": "send-other", "keep": "keep-last"}
    assert {action: at.shop.effects_of(f"{action}-other") for action in days} == {"send": 1, "keep": 0}
    assert {order: at.shop.effects_of(order) for day in days.values() for order in day.effects} == days["send"].effects | days[
        "keep"
    ].effects
