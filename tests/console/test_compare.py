"""Two runs side by side: what differs in inputs, results and parts, and nothing that is secret or of another tenant."""

from __future__ import annotations

import re

from tests.console.scene import plain
from tests.console.serving_scene import ServingScene


async def test_two_runs_of_a_pipeline_are_compared_node_by_node(stage: ServingScene) -> None:
    runs = []
    for n in (5, 60):
        run = stage.engine.run("flow", {"n": n}, wait=0.0).run_id
        stage.over_or_asks(run)
        stage.decide(run)
        runs.append(run)
    async with stage.browser() as person:
        shown = await person.text(f"compare?left={runs[0]}&right={runs[1]}")
        everything = await person.text(f"compare?left={runs[0]}&right={runs[1]}&all=1")
        same = await person.text(f"compare?left={runs[0]}&right={runs[1]}")
        other_way = await person.text(f"compare?left={runs[1]}&right={runs[0]}")
    assert "Inputs n 5 60" in shown
    assert "n 60 5" in other_way
    assert re.search(r"last ok failed .* state", shown)
    assert "small ok allow ok block" in everything
    assert "4 of 4 differ" in same


async def test_calls_of_a_worker_are_compared_and_its_secrets_are_not_shown(stage: ServingScene) -> None:
    first = stage.engine.run("say", {"text": 'a "quoted" one', "token": 'key"one'}).run_id
    second = stage.engine.run("say", {"text": "another", "token": "key-two"}).run_id
    async with stage.browser() as person:
        page = (await person.get(f"compare?left={first}&right={second}")).text
    shown = plain(page)
    assert "post write ok ok" in shown
    assert '"another"' in shown
    assert "key-two" not in page
    assert 'key"one' not in shown
    assert 'key\\"one' not in shown


async def test_executions_are_compared_by_name_and_order(stage: ServingScene) -> None:
    ids = [stage.engine.start("order", {"price": price}).id for price in (3, 200)]
    for one in ids:
        stage.over(one)
    async with stage.browser() as person:
        shown = await person.text(f"compare?left={ids[0]}&right={ids[1]}")
    assert "price 3 200" in shown
    assert re.search(r"charge .{0,20}ok failed", shown)
    assert "3 of 3 differ" in shown


async def test_the_second_run_is_chosen_from_the_runs_of_the_same_function(stage: ServingScene) -> None:
    first, second = (stage.engine.run("say", {"text": text}).run_id for text in ("a", "b"))
    execution = stage.engine.start("order", {"price": 3}).id
    async with stage.browser() as person:
        page = (await person.get(f"compare?left={first}")).text
        assert f"left={first}&amp;right={second}" in page
        assert execution not in page
        assert "matches." in await person.text(f"compare?left={first}&q=nothing")
        different = await person.text(f"compare?left={first}&right={execution}")
        assert "They are runs of different functions" in different
        await person.get("compare", expect=422)


async def test_another_tenant_compares_nothing(stage: ServingScene) -> None:
    first, second = (stage.engine.run("say", {"text": text}).run_id for text in ("a", "b"))
    async with stage.browser("viewer", tenant="other") as person:
        await person.get(f"compare?left={first}", expect=404)
        await person.get(f"compare?left={first}&right={second}", expect=404)


async def test_hostile_text_is_shown_and_does_nothing(stage: ServingScene) -> None:
    first = stage.engine.run("say", {"text": "<script>alert(1)</script>"}).run_id
    second = stage.engine.run("say", {"text": "\u202e<img src=x onerror=y>"}).run_id
    async with stage.browser() as person:
        page = (await person.get(f"compare?left={first}&right={second}")).text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
