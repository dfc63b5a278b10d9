"""The list of runs: what its rows say, what its facets count, and how its pages follow each other."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, durable_execution
from holdfast.model.errors import HoldfastError
from holdfast.store.browse import MAX_SCAN, Browse, Facets
from tests.console.scene import Scene, plain, reached


@durable_execution
async def order(event: dict[str, Any], context: AsyncDurableContext) -> str:
    if event.get("fails"):
        raise ValueError("the card was refused")
    if event.get("asks"):
        await context.wait_for_callback(lambda callback_id, _: None, name="approval")
    if event.get("waits"):
        await context.wait(Duration.from_hours(1), name="cool-down")
    return "done"


async def ran(scene: Scene, **inputs: dict[str, Any]) -> dict[str, str]:
    """Start executions by name, and let each go as far as it can; answers their ids."""
    async with holdfast.open(scene.where, functions=[order]) as engine:
        started = {name: await engine.start(order, given, name=name) for name, given in inputs.items()}
        for name, given in inputs.items():
            if "waits" in given or "asks" in given:
                await reached(scene, started[name].id)
                continue
            with contextlib.suppress(HoldfastError):
                await started[name].result()
    return {name: execution.id for name, execution in started.items()}


async def test_each_row_says_its_status_and_why_it_waits_with_the_button_that_cures_it(scene: Scene) -> None:
    ids = await ran(scene, fine={}, refused={"fails": True}, asking={"asks": True}, resting={"waits": True})
    async with scene.browser() as browser:
        page = (await browser.get("runs")).text
    rows = {name: row for row in re.findall(r"<tr>.*?</tr>", page, re.S) for name, id in ids.items() if id in row}
    said = {name: plain(row) for name, row in rows.items()}
    assert said["fine"].startswith("ok fine order")
    assert "It failed with ValueError. Restart…" in said["refused"]
    assert "It waits for an answer to its callback 'approval'. Answer…" in said["asking"]
    assert re.search(r"It waits for its timer 'cool-down' until 20\d\d-\d\d-\d\d", said["resting"])
    assert said["resting"].startswith("waiting")


async def test_a_question_narrows_rows_and_counts_and_stays_in_the_address(scene: Scene) -> None:
    await ran(scene, one={}, two={"fails": True}, three={"fails": True})
    async with scene.browser() as browser:
        assert "one" not in plain((await browser.get("runs?q=status:failed")).text).replace("one of", "")
        facets = plain((await browser.get("runs/-/facets?q=status:failed")).text)
        assert "failed 2" in facets
        assert "ok 1" in facets, "the values of a chosen facet are counted as if it were not chosen"
        assert "ValueError 2" in facets
        assert "2 matches in all." in facets
        link = re.search(r'href="([^"]*error%3AValueError[^"]*)"', (await browser.get("runs/-/facets?q=status:failed")).text)
        assert link is not None
        assert "status%3Afailed" in link[1], "a facet is added to what is asked already"


async def test_pages_follow_each_other_without_repeating_or_skipping_a_run(scene: Scene) -> None:
    names = {scene.start("order", name=f"n{number}").name for number in range(120)}
    async with scene.browser() as browser:
        path, seen = "runs", []
        while path:
            page = (await browser.get(path)).text
            seen += re.findall(r'class="cut mono name" href="[^"]*" title="[^"]*">(n\d+)<', page)
            older = re.search(r'href="\./(runs\?[^"]*beyond=[^"]*)">Older', page)
            path = "" if older is None else older[1].replace("&amp;", "&")
    assert len(seen) == 120
    assert set(seen) == names


async def test_a_question_that_cannot_be_read_is_shown_again_with_what_is_wrong(scene: Scene) -> None:
    async with scene.browser() as browser:
        page = await browser.get("runs?q=colour:red", expect=422)
        assert "is not a qualifier. The qualifiers are status, worker" in plain(page.text)
        assert 'value="colour:red"' in page.text


async def test_all_counts_of_one_question_together_look_at_no_more_than_one_search_may(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Browse] = []
    real = scene.store.facets

    def noted(wanted: Browse, *given: Any) -> Facets:
        looks.append(wanted)
        return real(wanted, *given)

    monkeypatch.setattr(scene.store, "facets", noted)
    async with scene.browser() as browser:
        for question in ("", "status:failed", "status:failed error:a tenant:b queue:c version:none function:d pipeline:e worker:f"):
            looks.clear()
            await browser.get("runs/-/facets", params={"q": question})
            assert 0 < sum(look.scan for look in looks) <= MAX_SCAN, question
    assert len(looks) == 9


async def test_the_search_completes_qualifiers_and_their_values_from_data(scene: Scene) -> None:
    await ran(scene, one={"fails": True})
    async with scene.browser() as browser:
        assert (await browser.get("runs/-/complete?key=&prefix=st")).json() == ["status:"]
        assert (await browser.get("runs/-/complete?key=status&prefix=fa")).json() == ["status:failed"]
        assert (await browser.get("runs/-/complete?key=function&prefix=or")).json() == ["function:order"]
        assert (await browser.get("runs/-/complete?key=error&prefix=V")).json() == ["error:ValueError"]
        assert (await browser.get("runs/-/complete?key=version&prefix=$")).json() == ["version:$LATEST"]
        assert (await browser.get("runs/-/complete?key=since&prefix=2")).json() == ["since:24h"]
        assert (await browser.get("runs/-/complete?key=&prefix=i")).json() == ["is:"]
        assert (await browser.get("runs/-/complete?key=is&prefix=")).json() == ["is:any"]
        assert (await browser.get("runs/-/complete?key=nonsense&prefix=V")).json() == []


async def test_views_are_saved_by_person_and_removed(scene: Scene) -> None:
    async with scene.browser("viewer", person="ann") as ann:
        await ann.post("runs/-/views", name="my failures", q="status:failed")
        assert "my failures" in await ann.text("runs")
        async with scene.browser("viewer", person="bob") as bob:
            assert "my failures" not in await bob.text("runs")
        await ann.post("runs/-/views/remove", name="my failures")
        assert "my failures" not in await ann.text("runs")


async def test_a_tenant_sees_its_own_runs_counts_and_values_only(scene: Scene) -> None:
    scene.start("order", tenant="acme", name="of-acme")
    scene.start("secret-function", tenant="rival", name="of-rival")
    async with scene.browser("viewer", tenant="acme") as browser:
        for path in (
            "runs",
            "runs/-/rows",
            "runs/-/facets",
            "runs/-/complete?key=function&prefix=",
            "runs?q=tenant:rival",
            "runs?q=is:any",
        ):
            page = (await browser.get(path)).text
            assert "of-rival" not in page, path
            assert "secret-function" not in page, path
        assert "of-acme" in await browser.text("runs")


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "\u202eabc", "a\x1b[31m"])
async def test_hostile_text_in_a_question_is_shown_and_does_nothing(scene: Scene, text: str) -> None:
    async with scene.browser() as browser:
        answer = await browser.client.get("/console/runs", params={"q": f"tenant:{text}"})
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text
        assert "49" not in plain(answer.text)
