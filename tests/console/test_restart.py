"""Restart from: what the page says before anything starts, the input beside its editable copy, and the new run."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.sources import restarts
from holdfast.model.audit import NoteFilter
from tests.console import serving_scene
from tests.console.scene import Browser, plain
from tests.console.serving_scene import ServingScene, serving

_PLANNED = re.compile(r'name="planned" value="([^"]+)"')
_INPUT = re.compile(r'<textarea id="input"[^>]*>(.*?)</textarea>', re.S)


def _planned(page: str) -> str:
    found = _PLANNED.search(page)
    assert found is not None, plain(page)[:1500]
    return found[1]


def _input(page: str) -> str:
    found = _INPUT.search(page)
    assert found is not None
    return html.unescape(found[1])


async def _restarted(person: Browser, run: str, **fields: Any) -> str:
    """Plan, read, start: as a person without scripts does it. Returns the id of the new run."""
    planned = await person.post(f"runs/{run}/restart/plan", expect=200, **fields)
    answer = await person.post(f"runs/{run}/restart", planned=_planned(planned.text), **fields)
    return answer.headers["location"].rpartition("/")[2]


def _flow(stage: ServingScene, n: int) -> str:
    run: str = stage.engine.run("flow", {"n": n}, wait=0.0).run_id
    stage.over_or_asks(run)
    stage.decide(run)
    return run


async def test_a_pipeline_is_restarted_from_a_node_and_says_first_what_is_reused(stage: ServingScene) -> None:
    run = _flow(stage, 5)
    async with stage.browser() as person:
        page = await person.get(f"runs/{run}/restart?from=last")
        shown = plain(page.text)
        assert "3 of 4 nodes are reused; 1 run again or may run again." in shown
        assert "twice step ok reused" in shown
        assert "last step ok runs again you chose it" in shown
        assert "No write was made in what runs again." in shown
        made = await _restarted(person, run, **{"from": "last", "input": _input(page.text)})
        stage.over(made)
        rows = (await person.get(f"runs/{made}/timeline")).json()["rows"]
    asked = next(at for at, row in enumerate(rows) if row["n"] == "sign-off")
    assert [(row["d"], row["v"], row["t"]) for row in rows[asked : asked + 2]] == [
        (0, "human", "→ ok"),
        (1, "reused", f"→ of run {run[-12:]}"),
    ]
    new = stage.store.find(made)
    old = stage.store.find(run)
    assert new is not None
    assert old is not None
    assert (new.function, old.superseded_by, new.status.value) == ("flow", made, "SUCCEEDED")


SPEAKS = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
said = p.worker("speak", "say", {"text": "hello"})
p.gives({"said": said.outputs.said})
"""


async def test_the_page_of_a_pipeline_with_more_nodes_than_it_shows_says_so(stage: ServingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _flow(stage, 5)
    async with stage.browser() as person:
        assert "are shown" not in await person.text(f"runs/{run}/restart")
        monkeypatch.setattr(restarts, "MOST_PLACES", 3)
        assert "The first 200 are shown." in await person.text(f"runs/{run}/restart")


async def test_the_page_counts_all_nodes_and_operations_also_those_that_it_does_not_show(
    stage: ServingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, execution = _flow(stage, 5), stage.engine.start("order", {"price": 200}).id
    stage.over(execution)
    async with stage.browser() as person:
        (_, charge) = re.findall(r'name="from" value="([^"]+)" id="p[23]"', (await person.get(f"runs/{execution}/restart")).text)
        monkeypatch.setattr(restarts, "MOST_PLACES", 1)
        shown = await person.text(f"runs/{run}/restart?from=last")
        assert "3 of 4 nodes are reused; 1 run again or may run again." in shown
        assert "last step" not in shown, "only the first node is a row"
        shown = await person.text(f"runs/{execution}/restart?from={charge}")
        assert "2 operations are reused: price, tax" in shown
        assert "3 operations run again: price, tax, charge" in await person.text(f"runs/{execution}/restart")


async def test_the_page_says_what_the_rest_may_cost_in_money_or_else_in_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", SPEAKS)
    with serving(tmp_path) as stage:
        run, uncapped = (stage.engine.run("flow", {}, constraints=caps).run_id for caps in ({"max_tokens": 60_000}, {}))
        async with stage.browser() as person:
            assert "The new run may cost up to $0.00." in await person.text(f"runs/{run}/restart?from=speak"), "it asks no model"
        stage.served = None  # a console that knows no contract and no price: only the cap of the run bounds it
        async with stage.browser() as person:
            assert "The new run may use up to 60,000 tokens." in await person.text(f"runs/{run}/restart?from=speak")
            assert "caps neither tokens nor money" in await person.text(f"runs/{uncapped}/restart?from=speak")


async def test_a_run_with_a_key_that_asks_a_person_is_called_and_stands_the_same_on_every_page(stage: ServingScene) -> None:
    run: str = stage.engine.run("flow", {"n": 5}, idempotency_key="of-may", wait=0.0).run_id
    stage.over_or_asks(run)
    async with stage.browser() as person:
        pages = [
            await person.text(path) for path in ("runs", f"runs/{run}/restart", f"compare?left={run}", f"compare?left={run}&right={run}")
        ]
    for page in pages:
        assert "person" in page
        assert re.search(rf"(?<!-){run[-12:]}", page), "the same end of its id"
    assert [run in page for page in pages] == [False, True, False, False], "only a reason may name the whole id"
    assert "of-may" in pages[0]
    found = stage.store.find(run)
    assert found is not None
    assert not any(found.name in page for page in pages)


async def test_a_failed_pipeline_is_retried_from_where_it_failed(stage: ServingScene) -> None:
    run = _flow(stage, 60)
    async with stage.browser("operator") as person:
        page = await person.get(f"runs/{run}/restart")
        assert "What failed retry" in plain(page.text)
        assert re.search(r"last step failed .* runs again", plain(page.text))
        assert '<button class="primary">Retry</button>' in page.text
        made = await _restarted(person, run, **{"from": "", "input": _input(page.text)})
    (noted,) = [one.note for one in stage.store.audit(NoteFilter(limit=50)) if one.note.what == "retry"]
    assert (noted.on, noted.outcome) == (run, f"as {made}")


async def test_an_edited_input_is_checked_by_the_contract_before_it_can_be_started(stage: ServingScene) -> None:
    run = _flow(stage, 60)
    async with stage.browser() as person:
        wrong = await person.post(f"runs/{run}/restart/plan", expect=200, **{"from": "", "input": '{"n": "many"}'})
        assert "The input does not fit the contract:" in plain(wrong.text)
        assert '<button class="primary" disabled>' in wrong.text
        await person.post(f"runs/{run}/restart", expect=422, **{"from": "", "input": '{"n": "many"}', "planned": _planned(wrong.text)})
        broken = await person.post(f"runs/{run}/restart/plan", expect=200, **{"from": "", "input": '{"n": '})
        assert "The input is not JSON" in plain(broken.text)
        made = await _restarted(person, run, **{"from": "", "input": '{"n": 7}'})
        stage.over_or_asks(made)
        stage.decide(made)
    document = stage.store.result(stage.store.find(made))  # type: ignore[arg-type]
    assert document is not None
    assert '"n":14' in document


async def test_a_form_that_changed_after_its_plan_starts_nothing(stage: ServingScene) -> None:
    run = _flow(stage, 60)
    async with stage.browser() as person:
        planned = _planned((await person.get(f"runs/{run}/restart")).text)
        answer = await person.post(f"runs/{run}/restart", expect=422, **{"from": "twice", "input": '{"n": 60}', "planned": planned})
        assert "You changed the form after the plan was made." in plain(answer.text)
    assert stage.store.find(run).superseded_by is None  # type: ignore[union-attr]


async def test_a_worker_keeps_its_secrets_and_its_writes_count(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "hello", "token": "s3cr3t-value"}).run_id
    async with stage.browser() as person:
        page = await person.get(f"runs/{run}/restart")
        assert "s3cr3t-value" not in page.text
        assert "it ended well, so it needs another input" in plain(page.text)
        edited = _input(page.text).replace("hello", "goodbye")
        assert "[redacted]" in edited
        planned = await person.post(f"runs/{run}/restart/plan", expect=200, **{"from": "", "input": edited})
        assert "1 old write counts: with the same arguments it is not made again; with other arguments a person is asked" in plain(
            planned.text
        )
        made = await _restarted(person, run, **{"from": "", "input": edited})
    from holdfast.workers.run_lookup import accepted_in

    header = stage.store.find(made)
    assert header is not None
    accepted = accepted_in(stage.store, header)
    assert accepted is not None
    assert accepted.request.inputs == {"text": "goodbye", "token": "s3cr3t-value"}


async def test_an_execution_begins_again_from_an_operation(stage: ServingScene) -> None:
    execution = stage.engine.start("order", {"price": 200}).id
    stage.over(execution)
    async with stage.browser("operator") as person:
        page = await person.get(f"runs/{execution}/restart")
        shown = plain(page.text)
        assert "2 operations are reused: price, tax ." in shown or "2 operations are reused: price, tax." in shown
        assert "1 operation runs again: charge" in shown
        chosen = re.search(r'name="from" value="([^"]+)" id="p3" checked', page.text)
        assert chosen is not None
        made = await _restarted(person, execution, **{"from": chosen[1], "input": '{"price": 90}'})
        stage.over(made)
        beginning = await person.get(f"runs/{made}/restart")
        assert "Nothing of the history is reused." in plain(beginning.text)
    new = stage.store.find(made)
    assert new is not None
    assert new.status.value == "SUCCEEDED"
    assert stage.store.result(new) == '{"receipt": "receipt-400", "tax": 40.0}'
    (noted,) = [one.note for one in stage.store.audit(NoteFilter(limit=50)) if one.note.what == "restart"]
    assert noted.on == execution


async def test_without_its_code_an_execution_begins_again_from_its_beginning(stage: ServingScene) -> None:
    execution = stage.engine.start("order", {"price": 200}).id
    stage.over(execution)
    stage.served = None
    async with stage.browser() as person:
        page = await person.get(f"runs/{execution}/restart")
        assert "is not in this process" in plain(page.text)
        made = await _restarted(person, execution, **{"from": "", "input": '{"price": 1}'})
    stage.over(made)
    new = stage.store.find(made)
    assert new is not None
    assert new.status.value == "SUCCEEDED"


async def test_what_goes_on_cannot_be_restarted_and_says_why(stage: ServingScene) -> None:
    run = stage.engine.run("flow", {"n": 1}, wait=0.0).run_id
    stage.over_or_asks(run)
    async with stage.browser() as person:
        page = await person.get(f"runs/{run}/restart")
        assert "is not over: wait for its end, or end it first." in plain(page.text)
        assert 'name="planned"' not in page.text


async def test_roles_and_tenants_hold(stage: ServingScene) -> None:
    run = _flow(stage, 60)
    async with stage.browser("viewer") as person:
        await person.get(f"runs/{run}/restart", expect=403)
        await person.post(f"runs/{run}/restart", expect=403, planned="x")
    async with stage.browser("operator", tenant="other") as person:
        await person.get(f"runs/{run}/restart", expect=404)
        await person.post(f"runs/{run}/restart", expect=404, planned="x")
        await person.post(f"runs/{run}/restart/plan", expect=404)


@pytest.mark.parametrize(
    "text, before, edited",
    [
        ('{"a": 1}', '{ "a":1 }', False),
        ('{"a": 2}', '{"a": 1}', True),
        ("NaN", "NaN", False),
        ('{"a": 1}', "not json", True),
        ("null", "", False),
    ],
)
def test_an_input_is_edited_if_its_value_is_another_one_also_if_the_old_input_is_no_json(text: str, before: str, edited: bool) -> None:
    assert restarts.is_edited(text, before) is edited
