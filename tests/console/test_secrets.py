"""Secrets of inputs are on no page, whatever is in them, and also where the console does not know the contract."""

from __future__ import annotations

from holdfast.console.sources.contracts import Cleaner
from holdfast.workers.run_lookup import accepted_in
from tests.console.scene import Browser, plain
from tests.console.serving_scene import ServingScene
from tests.surface.auth_server import BASE

KEY = '-----BEGIN KEY-----\nMIIE"vQ is the middle\\IBAD it ends\nné+8/'
"""A secret that JSON escapes in every way."""
PARTS = ("?tab=data", "?tab=events", "?tab=timeline", "/export", "/restart", "/test", "/test/file")


async def told(person: Browser, run: str) -> dict[str, str]:
    """Everything that the console says of a run, by the part of its page."""
    pages = {part: (await person.get(f"runs/{run}{part}")).text for part in PARTS}
    rows = (await person.get(f"runs/{run}/timeline")).json()["rows"]
    for row in rows:
        pages[f"?op={row['i']}"] = (await person.get(f"runs/{run}?op={row['i']}")).text
        pages[f"/op/{row['i']}/raw"] = (await person.get(f"runs/{run}/op/{row['i']}/raw")).text
    return {part: f"{text}\n{plain(text)}" for part, text in pages.items()}


async def test_a_secret_of_many_lines_and_quotes_is_on_no_page(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "hello", "token": KEY}).run_id
    async with stage.browser() as person:
        for part, text in (await told(person, run)).items():
            assert "vQ is the middle" not in text, part  # not shorter: an id may have any three letters
            assert "IBAD it ends" not in text, part


async def test_of_a_worker_whose_contract_is_not_known_no_input_is_shown(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "harmless-text", "token": "only-for-the-worker", "times": 987654}).run_id
    stage.served = None
    async with stage.browser() as person:
        for part, text in (await told(person, run)).items():
            assert "only-for-the-worker" not in text, part
            assert "harmless-text" not in text, part
            assert "987654" not in text, part
        assert "does not know the contract" in await person.text(f"runs/{run}?tab=data")


async def test_without_the_contract_a_comparison_says_that_inputs_differ_and_not_how(stage: ServingScene) -> None:
    first, second = (stage.engine.run("say", {"text": text, "token": f"token-of-{text}"}).run_id for text in ("one-text", "two-text"))
    stage.served = None
    async with stage.browser() as person:
        page = (await person.get(f"compare?left={first}&right={second}")).text
    for secret in ("token-of", "one-text", "two-text"):
        assert secret not in page


async def test_without_the_contract_a_restart_keeps_the_inputs_that_it_does_not_show(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "bad", "token": "only-for-the-worker", "times": 2}).run_id
    served, stage.served = stage.served, None
    async with stage.browser() as person:
        page = (await person.get(f"runs/{run}/restart")).text
        assert "only-for-the-worker" not in page
        text = '{"text": "good", "token": "[redacted]", "times": "[redacted]"}'
        planned = (await person.post(f"runs/{run}/restart/plan", input=text, expect=200)).text
        assert "only-for-the-worker" not in planned
        mark = planned.split('name="planned" value="')[1].split('"')[0]
        made = await person.post(f"runs/{run}/restart", input=text, planned=mark)
    new = made.headers["location"].rpartition("/")[2]
    stage.served = served
    stage.over_or_asks(new)
    header = stage.store.find(new)
    assert header is not None
    accepted = accepted_in(stage.store, header)
    assert accepted is not None
    assert accepted.request.inputs == {"text": "good", "token": "only-for-the-worker", "times": 2}


async def test_a_run_beside_an_execution_shows_no_secret(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "hello", "token": "only-for-the-worker"}).run_id
    execution = stage.engine.start("order", {"price": 3}).id
    stage.over(execution)
    async with stage.browser() as person:
        for left, right in ((run, execution), (execution, run)):
            assert "only-for-the-worker" not in (await person.get(f"compare?left={left}&right={right}")).text


async def test_a_secret_that_a_text_shows_cut_is_not_shown_in_part(stage: ServingScene) -> None:
    assert stage.served is not None
    (contract,) = stage.served.contracts("say")
    cleaner = Cleaner({"text": "x", "token": "sk-0123456789abcdef"}, contract)
    assert "0123" not in cleaner.text('{"a": "sk-01234567…')
    assert cleaner.text('{"a": "nothing…') == '{"a": "nothing…'


async def test_the_writes_of_before_are_shown_without_secrets(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "only-for-the-worker", "token": "only-for-the-worker"}).run_id
    async with stage.browser() as person:
        fields = {"csrf": await person.csrf(), "input": '{"text": "other", "token": "[redacted]"}'}
        headers = {"Origin": BASE, "HX-Request": "true"}
        planned = (await person.client.post(f"/console/runs/{run}/restart/plan", data=fields, headers=headers)).text
    assert "The old writes" in planned
    assert "only-for-the-worker" not in planned
