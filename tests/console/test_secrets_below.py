"""Secrets of the runs that a run asks for are not on the page of the run that asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.console.sources import run_secrets
from holdfast.durable import DurableContext, durable_execution
from tests.console import serving_scene
from tests.console.serving_scene import serving
from tests.console.test_secrets import told

OWN = ("/restart",)
"""Here a person edits the pipeline's own input, which its own contract does not mark."""
FLOW = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object", "properties": {"key": {"type": "string"}}}, outputs={"type": "object"})
said = p.worker("speak", "say", {"text": "hello", "token": p.inputs.key})
p.gives({"said": said.outputs.said})
"""


async def test_what_the_contract_of_a_worker_marks_is_on_no_page_of_the_pipeline_that_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", FLOW)
    with serving(tmp_path) as stage:
        run = stage.engine.run("flow", {"key": "only-for-the-worker"}).run_id
        async with stage.browser() as person:
            pages = await told(person, run)
            leaks = [part for part, text in pages.items() if "only-for-the-worker" in text and part not in OWN]
    assert leaks == []


MANY = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object", "properties": {"keys": {"type": "array"}}}, outputs={"type": "object"})
said = p.map("speak", "say", p.inputs.keys, {"text": "hello", "token": p.item}, at_most=3, at_once=1)
p.gives({"said": said.ok.outputs})
"""


@pytest.mark.parametrize("read", ["one run", "all runs"])
async def test_where_more_runs_have_secrets_than_are_read_no_page_shows_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """Most of the secrets are of runs that are not read."""
    monkeypatch.setattr(serving_scene, "FLOW", MANY)
    if read == "one run":
        monkeypatch.setattr(run_secrets, "_MOST_BELOW", 1)
    keys = [f"only-for-worker-{number}" for number in range(3)]
    with serving(tmp_path) as stage:
        run = stage.engine.run("flow", {"keys": keys}).run_id
        async with stage.browser() as person:
            pages = await told(person, run)
            leaks = [part for part, text in pages.items() if any(key in text for key in keys) and part not in OWN]
    assert leaks == []


@durable_execution
def order(event: dict[str, Any], context: DurableContext) -> dict[str, Any]:
    """Asks a worker, and returns or raises what it gave to the worker."""
    said = context.run("say", {"text": "hello", "token": event["key"]}, name="say").outputs
    if event.get("fails"):
        raise ValueError(f"no luck with {event['key']}")
    return {"said": said, "with": event["key"]}


@durable_execution
def outer(event: dict[str, Any], context: DurableContext) -> Any:
    """Asks a function that asks a worker, and one that makes only a step."""
    context.invoke("quiet", {}, name="quiet")
    return context.invoke("order", event, name="inner")


@durable_execution
def quiet(event: dict[str, Any], context: DurableContext) -> str:
    """Shows that not everything is hidden."""
    return context.step(lambda _: "nothing-to-hide", name="quiet")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("most", [1, 250])
async def test_what_the_contract_of_a_worker_marks_is_on_no_page_of_the_functions_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool, most: int
) -> None:
    monkeypatch.setattr(serving_scene, "FUNCTIONS", [order, outer, quiet])
    monkeypatch.setattr(run_secrets, "_MOST_BELOW", most)
    leaks, pages = [], dict[str, str]()
    with serving(tmp_path) as stage:
        for function in ("order", "outer"):
            events = [{"key": f"only-for-worker-{number}", "fails": fails} for number in range(2)]
            left, right = (stage.engine.start(function, event).id for event in events)
            for execution in (left, right):
                stage.over(execution)
            async with stage.browser() as person:
                pages = await told(person, left)
                pages["compare"] = (await person.get(f"compare?left={left}&right={right}")).text
            leaks += [(function, part) for part, text in pages.items() if "only-for-worker" in text and part not in OWN]
        assert "nothing-to-hide" in pages["/export"]
    assert leaks == []


OUTER = f"""{FLOW}
p = Pipeline("outer", "1.0", inputs={{"type": "object", "properties": {{"key": {{"type": "string"}}}}}}, outputs={{"type": "object"}})
said = p.pipeline("nested", "flow", {{"key": p.inputs.key}})
p.gives({{"said": said.outputs.said, "with": p.inputs.key}})
"""


@pytest.mark.parametrize("most", [1, 500])
async def test_what_the_contract_of_a_worker_marks_is_on_no_page_two_pipelines_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", OUTER.replace("p = ", "inner = ", 1).replace("p.", "inner.", 3))
    monkeypatch.setattr(run_secrets, "_MOST_ASKING", most)
    with serving(tmp_path) as stage:
        run = stage.engine.run("outer", {"key": "only-for-the-worker"}).run_id
        async with stage.browser() as person:
            pages = await told(person, run)
            leaks = [part for part, text in pages.items() if "only-for-the-worker" in text and part not in OWN]
    assert leaks == []
