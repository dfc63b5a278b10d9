"""Workers, pipelines and functions: the list, the contract as a page, figures, gates beside people, and the form that starts a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.console.schema_form import filled, form_of, rows_of
from holdfast.contract.checking import checker_of
from holdfast.model.audit import NoteFilter
from holdfast.model.browse_errors import ReadTooLong
from holdfast.model.ids import id_at
from holdfast.store.browse import Browse
from tests.console import serving_scene
from tests.console.scene import Scene, plain
from tests.console.serving_scene import ServingScene, serving


async def test_the_list_has_every_kind_with_the_figures_of_the_day(stage: ServingScene) -> None:
    stage.engine.run("say", {"text": "a"})
    stage.engine.run("say", {"text": "bad"})
    async with stage.browser() as person:
        shown = await person.text("workers")
        assert "All 3 Workers 1 Pipelines 1 Functions 1" in shown
        assert "say worker 1.0 Be tested. 2 50 %" in shown
        assert "flow pipeline 1.0" in shown
        assert "Figures of all runs that began in the last 24 hours." in shown
        only = await person.text("workers?kind=pipeline")
        assert "flow" in only
        assert "Be tested" not in only
        assert "Nothing matches." in await person.text("workers?q=nothing-like-it")


async def test_a_workers_page_is_its_contract(stage: ServingScene) -> None:
    async with stage.browser() as person:
        page = await person.get("workers/say")
        for fact in ("Be tested.", "What to say.", "40 characters at most", "post", "30.0 s", "secret"):
            assert fact in page.text
        assert "none: it runs in the server" in page.text
        assert 'type="password"' in page.text
        assert "There is no worker, pipeline or function" in await person.text("workers/missing", expect=404)


async def test_a_pipelines_page_has_its_graph_and_its_text(stage: ServingScene) -> None:
    async with stage.browser() as person:
        page = await person.get("workers/flow")
        assert '<svg xmlns="http://www.w3.org/2000/svg" class="hf-graph"' in page.text
        assert "sign-off" in page.text
        assert "style=" not in page.text
        assert "workers/flow/gates" in page.text


async def test_a_pipelines_page_says_only_the_time_limit_that_holds(
    stage: ServingScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline without `timeout=` has the default of a worker's attempt in its contract, but no run of it ends then; and no run of a
    pipeline is tried again as a whole."""
    async with stage.browser() as person:
        page = await person.text("workers/flow")
    assert "Time of a run no limit" in page
    assert "Time of one attempt" not in page
    assert "Attempts" not in page
    (tmp_path / "quick").mkdir()
    monkeypatch.setattr(serving_scene, "FLOW", serving_scene.FLOW.replace("inputs=N, ", 'inputs=N, timeout="10m", '))
    with serving(tmp_path / "quick") as limited:
        async with limited.browser() as person:
            assert "Time of a run 10 m 0 s" in await person.text("workers/flow")


async def test_one_question_to_a_person_is_counted_once(stage: ServingScene) -> None:
    """Its node is shown as waiting for a person, too."""
    run = stage.engine.run("flow", {"n": 5}, wait=0.0).run_id
    stage.over_or_asks(run)
    async with stage.browser() as person:
        told = (await person.get(f"runs/{run}/timeline")).json()["told"]
    assert " · 1 question to a person" in told


async def test_a_gates_verdicts_stand_beside_what_people_decided(stage: ServingScene) -> None:
    for n, verdict in ((5, "approve"), (6, "reject"), (40, "approve")):
        run = stage.engine.run("flow", {"n": n}, wait=0.0).run_id
        stage.over_or_asks(run)
        stage.decide(run, verdict)
    async with stage.browser() as person:
        shown = await person.text("workers/flow/gates")
    assert "allow 2 1 0 0 1 0 0" in shown
    assert "block 1 1 0 0 0 0 0" in shown
    assert "People decided against the gate 2 times." in shown


async def test_the_form_starts_a_run_that_the_contract_has_checked(stage: ServingScene) -> None:
    async with stage.browser("operator") as person:
        fields: dict[str, Any] = {"in.text": "hello", "in.times": "2", "in.tone": '"kind"', "version": "1.0"}
        answer = await person.post("workers/say/start", **fields)
        run = answer.headers["location"].rpartition("/")[2]
        stage.over(run)
        header = stage.store.find(run)
        assert header is not None
        assert header.function == "say"
        noted = [one.note for one in stage.store.audit(NoteFilter(limit=50)) if one.note.what == "start"]
    assert [(note.on, note.outcome) for note in noted] == [(run, "of say")]
    assert noted[0].who.startswith("hft-")


async def test_a_start_whose_key_has_a_run_already_is_not_noted_as_a_start(stage: ServingScene) -> None:
    async with stage.browser("operator") as person:
        fields: dict[str, Any] = {"in.text": "hello", "version": "1.0", "key": "once"}
        answers = [await person.post("workers/say/start", **fields) for _ in range(2)]
        runs = [answer.headers["location"].rpartition("/")[2] for answer in answers]
        stage.over(runs[0])
        noted = [one.note.on for one in stage.store.audit(NoteFilter(limit=50)) if one.note.what == "start"]
    assert runs[0] == runs[1]
    assert noted == runs[:1]


@pytest.mark.parametrize(
    "part",
    [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {"enum": [771177, 2]}, {"type": "array"}, {"type": "boolean"}],
    ids=lambda part: str(part.get("type", "enum")),
)
@pytest.mark.parametrize("mark", ["writeOnly", "x-redact"])
def test_a_secret_field_shows_no_default_no_value_and_no_example(part: dict[str, Any], mark: str) -> None:
    told = {**part, mark: True, "default": 771177, "examples": [771177]}
    schema = {"type": "object", "properties": {"pin": told}, "required": ["pin"]}
    for form in (form_of(schema), form_of(schema, {"pin": 771177})):
        (field,) = form.fields
        assert "771177" not in field.value + field.example + field.bounds
        typed, _ = filled(form, {field.key: "771177"})
        assert typed.fields[0].value == ""
    (row,), _ = rows_of(schema)
    assert (row.secret, row.bounds) == (True, "")


def test_an_array_that_refers_to_itself_has_a_form_and_rows() -> None:
    """The contract allows such a schema. Its worker's page was an error page."""
    inner = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": inner}}
    checker_of(schema)
    (field,), (row, *_) = form_of(schema).fields, rows_of(schema)[0]
    assert field.type == row.type == "array of array of array of array of array"


async def test_figures_that_are_not_of_all_runs_say_so_and_figures_that_cannot_be_read_are_not_zero(
    stage: ServingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.engine.run("say", {"text": "a"})
    browse = type(stage.store).browse

    def cut(store: Any, wanted: Browse, seconds: float) -> Any:
        return msgspec.structs.replace(browse(store, wanted, seconds), searched_to=id_at(0))

    def late(store: Any, wanted: Browse, seconds: float) -> Any:
        if wanted.since is not None:
            raise ReadTooLong("It took too long.")
        return browse(store, wanted, seconds)

    async with stage.browser() as person:
        assert "Figures of the newest" not in await person.text("workers/say")
        monkeypatch.setattr(type(stage.store), "browse", cut)
        assert "Figures of the newest 10,000 runs" in await person.text("workers/say")
        monkeypatch.setattr(type(stage.store), "browse", late)
        shown = await person.text("workers/say")
    assert "The figures of the last 24 hours could not be read in time." in shown
    assert "Runs, 24 h" not in shown


async def test_a_form_that_does_not_fit_says_where(stage: ServingScene) -> None:
    async with stage.browser() as person:
        fields = {"in.text": "x" * 50, "in.times": "0", "in.tags": "[1", "version": "1.0"}
        unread = await person.post("workers/say/start", expect=422, **fields)
        assert "This is not JSON" in unread.text
        refused = await person.post("workers/say/start", expect=422, **(fields | {"in.tags": "[]"}))
        assert refused.text.count('class="said small"') == 2
        assert "x" * 50 in refused.text
        whole = await person.post("workers/say/start", expect=422, **{"as": "json", "inputs": "{nope", "version": "1.0"})
        assert "This is not JSON" in whole.text
        empty = await person.post("workers/say/start", expect=422, **{"in.text": " ", "version": "1.0"})
        assert empty.text.count('class="said small"') == 1  # an empty field is left out, and the contract misses it
    assert list(stage.store.browse(Browse(functions=("say",)), 5).rows) == []


async def test_a_function_starts_with_json_and_a_name(stage: ServingScene) -> None:
    async with stage.browser() as person:
        answer = await person.post("workers/order/start", inputs='{"price": 3}', name="o-1")
        execution = answer.headers["location"].rpartition("/")[2]
        stage.over(execution)
        again = await person.post("workers/order/start", inputs='{"price": 3}', name="o-1")
        assert again.headers["location"] == answer.headers["location"]
        other = await person.post("workers/order/start", expect=422, inputs='{"price": 4}', name="o-1")
        assert 'class="problem"' in other.text
    header = stage.store.find(execution)
    assert header is not None
    assert (header.name, header.status.value) == ("o-1", "SUCCEEDED")


async def test_a_viewer_reads_and_starts_nothing(stage: ServingScene) -> None:
    async with stage.browser("viewer") as person:
        assert "Starting a run needs the role operator or admin." in await person.text("workers/say")
        await person.post("workers/say/start", expect=403, **{"in.text": "hello"})


async def test_another_tenant_sees_no_run(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "a"}).run_id
    async with stage.browser("operator", tenant="other") as person:
        assert run not in (await person.get("workers/say")).text
        assert "It has not run yet." in await person.text("workers/say")
    async with stage.browser("operator", tenant="default") as person:
        assert run in (await person.get("workers/say")).text


async def test_a_console_with_a_store_alone_says_why_it_starts_nothing(stage: ServingScene) -> None:
    stage.engine.run("flow", {"n": 1}, wait=0.0)
    stage.served = None
    async with stage.browser() as person:
        assert "This console has only the store" in await person.text("workers/say")
        assert "The contract of say is in its page" in await person.text("workers/say")
        flow = await person.get("workers/flow")
        assert "hf-graph" in flow.text  # the graph is in the store, with the run
        assert "needs the role" not in await person.text("workers/order")
        for name, fields in (("say", {"in.text": "hello"}), ("flow", {"in.n": "1"}), ("flow", {"in.n": "one"})):
            answer = await person.post(f"workers/{name}/start", expect=422, **fields)
            assert 'id="try"' in answer.text, "the page of the worker or the pipeline, and no page of an error"
            assert "This console has only the store" in plain(answer.text)


MAPPED = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object", "properties": {"list": {"type": "array"}}}, outputs={"type": "object"})
said = p.map("speak", "say", p.inputs.list, {"text": p.item}, at_most=3)
p.gives({"all": said.ok})
"""


async def test_the_graph_of_a_pipeline_that_is_not_served_is_found_behind_the_shards_of_its_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", MAPPED)
    with serving(tmp_path) as stage:
        stage.engine.run("flow", {"list": ["a", "b"]})
        stage.served = None
        async with stage.browser() as person:
            assert "hf-graph" in (await person.get("workers/flow")).text


async def test_the_parts_of_a_map_are_not_offered_as_runs_of_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", MAPPED)
    with serving(tmp_path) as stage:
        first, second = (stage.engine.run("flow", {"list": ["a", "b"], "n": n}).run_id for n in (1, 2))
        async with stage.browser() as person:
            page = await person.text(f"compare?left={first}")
    assert "The newest run of flow." in page
    assert second[-12:] in page


async def test_an_empty_store_says_how_to_begin(scene: Scene) -> None:
    async with scene.browser() as person:
        assert "No runner has published anything in this store yet." in await person.text("workers")
