"""The page of one run: what it says of real executions, what a person can do there, and what another tenant sees of it."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, durable_execution
from holdfast.durable.config import StepConfig
from holdfast.durable.retries import RetryStrategyConfig, create_retry_strategy
from holdfast.model.audit import NoteFilter
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import ExecutionStatus, State
from holdfast.model.operations import Type
from holdfast.pipelines.graph.graph import HumanNode, MapNode, WorkerNode
from holdfast.store.seam import Filter
from holdfast.workers.body.errors import WorkerError
from tests.console.histories import History
from tests.console.scene import Browser, Scene, plain, reached
from tests.pipelines.stage import PatientClock, graph_of, stage, worker
from tests.pipelines.templates import ref

HOSTILE = "<script>alert(1)</script>\u202e{{7*7}}"
_tried = {"count": 0}


@durable_execution
async def order(event: dict[str, Any], context: AsyncDurableContext) -> Any:
    async def charge(_: Any) -> str:
        _tried["count"] += 1
        if event.get("flaky") and _tried["count"] < 2:
            raise ConnectionError("the card service did not answer")
        return str(event.get("gives", "receipt-42"))

    again = create_retry_strategy(RetryStrategyConfig(max_attempts=2, initial_delay=Duration.from_seconds(1)))
    await context.step(charge, name=str(event.get("step", "charge")), config=StepConfig(retry_strategy=again))
    if event.get("asks"):
        return await context.wait_for_callback(lambda callback_id, _: None, name="approval")
    if event.get("fails"):
        raise ValueError(str(event["fails"]))
    return "done"


async def ran(scene: Scene, event: dict[str, Any], name: str = "order-17") -> str:
    """Start an execution, and let it go as far as it can; its id."""
    _tried["count"] = 0
    async with holdfast.open(scene.where, functions=[order]) as engine:
        started = await engine.start(order, event, name=name)
        if "asks" in event:
            await reached(scene, started.id)
        else:
            with contextlib.suppress(HoldfastError):
                await started.result()
    return started.id


def callback_of(scene: Scene, execution: str) -> str:
    return next(op.id for op in scene.store.outline(execution) if op.type is Type.CALLBACK)


async def slice_of(browser: Browser, execution: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = (await browser.get(f"runs/{execution}/timeline?{query}")).json()
    return found


def noted(scene: Scene) -> list[tuple[str, str, str]]:
    return [(one.note.what, one.note.on, one.note.outcome) for one in scene.store.audit(NoteFilter(limit=50))]


# --- reading


async def test_the_page_says_how_the_run_stands_and_what_it_did_also_without_scripts(scene: Scene) -> None:
    execution = await ran(scene, {"flaky": True})
    async with scene.browser() as browser:
        page = plain((await browser.get(f"runs/{execution}")).text)
        assert "ok order-17 function order" in page
        assert f"Id {execution} copy copy ARN" in page
        assert "step charge ×2 → receipt-42" in page
        assert "Rows 1 to 1 of 1" in page
        found = await slice_of(browser, execution)
        (row,) = found["rows"]
        assert (row["v"], row["n"], row["t"], row["s"], row["a"]) == ("step", "charge", "→ receipt-42", "ok", 2)
        panel = plain((await browser.get(f"runs/{execution}?part=panel&op={row['i']}")).text)
        assert "StepFailed" in panel
        assert "ConnectionError : the card service did not answer" in panel
        assert "next attempt after 1 s" in panel
        raw = json.loads((await browser.get(f"runs/{execution}/op/{row['i']}/raw")).content)
        assert raw["operation"]["name"] == "charge"
        assert len(raw["events"]) == 4


async def test_input_result_and_events_are_tabs_with_the_names_of_aws(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True, "number": 12345678901234567890})
    async with scene.browser() as browser:
        data = plain((await browser.get(f"runs/{execution}?tab=data")).text)
        assert "12345678901234567890" in data, "no digit is lost"
        assert "there is no result yet" in data
        events = plain((await browser.get(f"runs/{execution}?tab=events")).text)
        for word in ("ExecutionStarted", "StepSucceeded", "CallbackStarted"):
            assert word in events
        assert "No more events" in await browser.text(f"runs/{execution}?tab=events&after=500")
        document = json.loads((await browser.get(f"runs/{execution}/export")).content)
        assert execution in json.dumps(document)


async def test_an_error_has_its_stack_and_the_line_of_the_authors_code(scene: Scene) -> None:
    line = _line_of('raise ConnectionError("the card service')
    async with scene.browser() as browser:
        execution = await ran(scene, {"flaky": True})
        (row,) = (await slice_of(browser, execution))["rows"]
        panel = plain((await browser.get(f"runs/{execution}?part=panel&op={row['i']}")).text)
        assert f"at {__file__}:{line} in charge" in panel
        assert f'Stack File "{__file__}", line {line}, in charge' in panel
        failed = await ran(scene, {"fails": "no money"}, "order-18")
        assert f"ValueError: no money at {__file__}:{_line_of('raise ValueError(str(event')} in order" in await browser.text(
            f"runs/{failed}"
        )
        for run in (execution, failed):
            events = (await browser.get(f"runs/{run}?tab=events")).text.partition('class="events"')[2]
            assert "Failed" in events
            assert __file__ not in events, "AWS has no such detail"


def _line_of(code: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip().startswith(code))


async def test_an_operation_that_has_no_row_has_a_panel_and_one_that_is_not_there_has_no_page(scene: Scene) -> None:
    execution = await ran(scene, {})
    async with scene.browser() as browser:
        await browser.get(f"runs/{execution}?op=nothing", expect=404)
        await browser.get(f"runs/{execution}/op/nothing/raw", expect=404)
        await browser.get("runs/nothing", expect=404)


async def test_rows_of_a_long_run_come_in_pages_without_scripts(scene: Scene) -> None:
    made = History("long", scene.clock.now() - 100_000)
    for number in range(450):
        made.step(f"row-{number}")
    header = made.kept(scene.store)
    async with scene.browser() as browser:
        path, seen = f"runs/{header.id}", list[str]()
        while path:
            page = (await browser.get(path)).text
            seen += re.findall(r"</span> (row-\d+)</a>", page)
            following = re.search(r'href="\.\./(runs/[^"]*from=\d+)">Next', page)
            path = "" if following is None else following[1].replace("&amp;", "&")
    assert seen == [f"row-{number}" for number in range(450)]


async def test_hostile_text_is_shown_and_does_nothing(scene: Scene) -> None:
    execution = await ran(scene, {"step": "s" + HOSTILE, "gives": HOSTILE, "fails": HOSTILE})
    async with scene.browser() as browser:
        row = (await slice_of(browser, execution))["rows"][0]
        for path in ("", "?tab=data", "?tab=events", f"?op={row['i']}", "?part=head", "?q=<script>alert(1)</script>"):
            page = (await browser.get(f"runs/{execution}{path}")).text
            assert "<script>alert" not in page, path
            assert "\u202e" not in page, path
            assert "49" not in re.findall(r"alert\(1\).{0,40}", plain(page)), path
            assert 'style="' not in page, path
        assert "\u202e" not in json.dumps(row, ensure_ascii=False)


# --- acting


async def test_a_callback_is_answered_on_the_page_and_the_run_goes_on(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True})
    operation = callback_of(scene, execution)
    async with scene.browser("approver", person="ann") as browser:
        page = plain((await browser.get(f"runs/{execution}?op={operation}")).text)
        assert "This callback waits for an answer" in page
        assert "Send success" in page
        wrong = await browser.post(f"runs/{execution}/op/{operation}/succeed", expect=422, result="{not json")
        assert "{not json" in plain(wrong.text), "what was typed is not lost"
        await browser.post(f"runs/{execution}/op/{operation}/heartbeat")
        await browser.post(f"runs/{execution}/op/{operation}/succeed", result='{"approved": true}')
        again = await browser.post(f"runs/{execution}/op/{operation}/succeed", expect=422, result="1")
        assert "has been answered" in plain(again.text)
        events = plain((await browser.get(f"runs/{execution}?tab=events")).text)
        assert "CallbackSucceeded" in events
    assert ("callback", execution, "succeeded") in noted(scene)
    assert ("heartbeat", execution, "sent") in noted(scene)


async def test_a_callback_can_fail(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True})
    operation = callback_of(scene, execution)
    async with scene.browser("approver") as browser:
        await browser.post(f"runs/{execution}/op/{operation}/fail", type="Refused", message="not today")
        assert "Refused : not today" in plain((await browser.get(f"runs/{execution}?op={operation}")).text)


@pytest.mark.parametrize("verb", ["succeed", "fail", "heartbeat"])
async def test_who_may_start_a_run_may_not_answer_its_callback(scene: Scene, verb: str) -> None:
    """As over HTTP: approving is not operating."""
    execution = await ran(scene, {"asks": True})
    operation = callback_of(scene, execution)
    async with scene.browser("operator") as browser:
        assert "Send success" not in await browser.text(f"runs/{execution}?op={operation}")
        await browser.post(f"runs/{execution}/op/{operation}/{verb}", expect=403, result="1")
    assert not [note for note in noted(scene) if note[0] in ("callback", "heartbeat")]


async def test_a_run_is_stopped_with_a_reason_that_the_audit_log_keeps(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True})
    async with scene.browser("operator") as browser:
        assert "Why do you stop it?" in await browser.text(f"runs/{execution}")
        await browser.post(f"runs/{execution}/stop", reason="it was a mistake")
        page = await browser.text(f"runs/{execution}")
        assert "stopped order-17" in page
        assert "StoppedByOperator: it was a mistake" in page
        assert "Why do you stop it?" not in page
        await browser.post(f"runs/{execution}/release", expect=422)
    header = scene.store.find(execution)
    assert header is not None
    assert header.status is ExecutionStatus.STOPPED
    assert ("stop", execution, "stopped") in noted(scene)
    assert ("reason", execution, "it was a mistake") in noted(scene)


@pytest.mark.parametrize("verb", ["stop", "release", "redrive", "op/{op}/succeed", "op/{op}/fail", "op/{op}/heartbeat"])
async def test_a_viewer_sees_no_button_and_cannot_act(scene: Scene, verb: str) -> None:
    execution = await ran(scene, {"asks": True})
    path = f"runs/{execution}/{verb.format(op=callback_of(scene, execution))}"
    async with scene.browser("viewer") as browser:
        page = await browser.text(f"runs/{execution}?op={callback_of(scene, execution)}")
        assert "Send success" not in page
        assert "Stop" not in page
        await browser.post(path, expect=403, reason="no", result="1")
    header = scene.store.find(execution)
    assert header is not None
    assert header.status is ExecutionStatus.RUNNING


async def test_another_tenant_sees_nothing_of_a_run_and_cannot_act_on_it(scene: Scene) -> None:
    header = scene.start("order", {"secret": 1}, tenant="acme", name="of-acme")
    made = History("done", scene.clock.now() - 5_000, tenant="acme")
    step = made.step("pay")
    done = made.kept(scene.store)
    async with scene.browser("admin", tenant="rival") as browser:
        for path in ("", "/timeline", "/export", f"/op/{step}/raw", f"?op={step}", "?tab=data", "?tab=events", "?part=head", "/artifact/x"):
            answer = await browser.get(f"runs/{done.id}{path}", expect=404)
            assert "pay" not in answer.text
        for verb in ("stop", "release", "redrive", f"op/{step}/succeed"):
            await browser.post(f"runs/{header.id}/{verb}", expect=404, reason="x", result="1")
    async with scene.browser("admin", tenant="acme") as browser:
        assert "of-acme" in await browser.text(f"runs/{header.id}")
        assert "step pay" in await browser.text(f"runs/{done.id}")


def other_code() -> Any:
    """The same function after a change that its running executions cannot bear."""

    @durable_execution
    async def order(event: dict[str, Any], context: AsyncDurableContext) -> Any:
        return await context.wait(Duration.from_hours(1), name="something else")

    return order


async def test_a_quarantined_run_says_why_and_is_released(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True})
    async with scene.browser("operator", "approver") as browser:
        await browser.post(f"runs/{execution}/op/{callback_of(scene, execution)}/succeed", result="1")
        async with holdfast.open(scene.where, functions=[other_code()]):
            await reached(scene, execution, State.QUARANTINED)
        page = await browser.text(f"runs/{execution}")
        assert "quarantined order-17" in page
        assert "replay_mismatch" in page
        assert " Release " in page
        await browser.post(f"runs/{execution}/release")
        assert " Release " not in await browser.text(f"runs/{execution}")
    assert ("release", execution, "released") in noted(scene)


async def test_a_parked_run_is_redriven_and_the_page_of_the_new_one_opens(scene: Scene) -> None:
    async with holdfast.open(scene.where, functions=[order]) as engine:
        parked = await engine.enqueue(order, {"fails": "not today"}, queue="letters", key="k", idempotency_key="letter")
        with contextlib.suppress(HoldfastError):
            await parked.result()
    async with scene.browser("operator") as browser:
        page = await browser.text(f"runs/{parked.id}")
        assert "Queue letters key k" in page
        assert " Redrive " in page
        moved = await browser.post(f"runs/{parked.id}/redrive")
        new = moved.headers["location"].rpartition("/")[2]
        assert new != parked.id
        old = (await browser.get(f"runs/{parked.id}")).text
        assert "superseded by" in plain(old)
        assert f'runs/{new}"' in old
        assert " Redrive " not in plain(old)
    assert ("queue_redrive", "letters", "1 started again") in noted(scene)


async def test_a_console_that_is_read_only_has_no_actions(scene: Scene) -> None:
    execution = await ran(scene, {"asks": True})
    async with scene.browser(read_only=True) as browser:
        page = await browser.text(f"runs/{execution}?op={callback_of(scene, execution)}")
        assert "Send success" not in page
        assert "Restart from" not in page


# --- runs of workers and pipelines


async def page_body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    ctx.log(f"looking at {inputs['n']}")
    if inputs["n"] == 2:
        raise WorkerError("page_not_found", "The page is gone.", retryable=False)
    return {"n": inputs["n"]}


async def test_a_pipeline_shows_its_graph_its_nodes_and_the_items_of_its_map(scene: Scene, tmp_path: Path) -> None:
    pages = MapNode(name="pages", worker="w", over=[1, 2, 3], inputs={"n": ref("item")}, at_most=3, tolerate=1)
    graph = msgspec.structs.replace(graph_of(pages, HumanNode(name="sign-off", question="Publish?", show=1)), steps=None)
    async with stage(graph, worker("w", page_body), folder=tmp_path, where=scene.where, clock=PatientClock()) as made:
        await made.run(wait=5)
        (run,) = [header for header in scene.store.list(Filter(function="p", limit=10)) if header.parent is None]
        async with scene.browser() as browser:
            page = (await browser.get(f"runs/{run.id}")).text
            assert 'class="hf-graph"' in page
            assert "<style>" not in page
            found = await slice_of(browser, run.id)
            told = [f"{row['v']} {row['n']} {row['t']}".strip() for row in found["rows"]]
            assert told[0] == "map pages 3 items: 2 ok, 1 failed"
            assert "human sign-off" in told
            assert found["counts"]["person"] == 1, "the node only shows the question under it"
            node = found["rows"][0]["i"]
            assert f'data-op="{node}"' in page, "a node of the graph leads to its row"
            panel = plain((await browser.get(f"runs/{run.id}?part=panel&op={node}")).text)
            assert "3 items" in panel
            assert "page_not_found" in panel
            home = await browser.text("")
            assert "1 waits for a decision" in home
            assert "No run waits for a runner, a timer, a callback or its turn. Decisions of people" in home
            assert "Nothing that was started in the last day has failed." in home, "the run of the item is no run of its own"
            asked = next(row for row in found["rows"] if row["v"] == "ask")
            assert "A person decides this." in await browser.text(f"runs/{run.id}?op={asked['i']}")


async def report_body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    await ctx.step(lambda: 1, "count")
    ctx.log("writing", level="warning")
    await ctx.artifact("report.json", json.dumps({"report": "<b>fine</b>", "by": inputs["token"]}), media_type="application/json")
    await ctx.artifact("dot.png", b"\x89PNG", media_type="image/png")
    return {"n": 1}


async def test_an_attempt_has_its_log_and_a_run_its_artifacts_with_a_preview(scene: Scene, tmp_path: Path) -> None:
    """In the panel of what made them, of the node that asked for the run, and with the result; without secrets."""
    takes = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    graph = graph_of(WorkerNode(name="one", worker="w", inputs={"token": "s3cr3t-of-the-caller"}))
    folder = Path(f"{scene.where}.workers") / "artifacts"
    folder.mkdir(parents=True)
    made_by = worker("w", report_body, takes=takes)
    async with stage(msgspec.structs.replace(graph, steps=None), made_by, folder=folder, where=scene.where, clock=PatientClock()) as made:
        await made.run()
    (run,) = scene.store.list(Filter(function="w", limit=10))
    (above,) = [header for header in scene.store.list(Filter(function="p", limit=10)) if header.parent is None]
    async with scene.browser() as browser:
        rows = (await slice_of(browser, run.id))["rows"]
        assert [f"{row['v']} {row['n']} {row['t']}".strip() for row in rows] == [
            'attempt 1 → {"n": 1}',
            "step count → 1",
            "log warning writing",
        ]
        attempt = next(row["i"] for row in rows if row["v"] == "attempt")
        asked = next(row["i"] for row in (await slice_of(browser, above.id))["rows"] if row["v"] == "run")
        page = picture = ""
        for path in (f"{run.id}?part=panel&op={attempt}", f"{above.id}?part=panel&op={asked}", f"{run.id}?tab=data"):
            page = (await browser.get(f"runs/{path}")).text
            assert "fine" in page, path
            assert attempt not in path or "sha256" not in page, "the output is what the worker gave"
            assert "<b>fine" not in page, path
            assert "s3cr3t" not in page, path
            (picture,) = re.findall(r'<img class="preview" src="[^"]*(runs/[^"]+)"', page)
            assert (await browser.get(picture)).headers["content-type"] == "image/png"
        (file,) = {found for found in re.findall(r'href="[^"]*(runs/[^"]+/artifact/[^"]+)" download', page) if found not in picture}
        got = await browser.get(file)
        assert json.loads(got.content)["report"] == "<b>fine</b>"
        assert got.headers["content-type"] == "application/octet-stream"
        assert "attachment" in got.headers["content-disposition"]
        assert "sandbox" in got.headers["content-security-policy"]
        await browser.get(f"runs/{run.id}/artifact/{'0' * 32}", expect=422)


async def broken_body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    await ctx.step(lambda: 1, "count")
    ctx.log("about to fail")
    return {"n": 1 // inputs["n"]}


async def test_an_attempt_that_failed_has_its_line_its_stack_and_its_log(scene: Scene, tmp_path: Path) -> None:
    graph = msgspec.structs.replace(graph_of(WorkerNode(name="one", worker="w", inputs={"n": 0})), steps=None)
    async with stage(graph, worker("w", broken_body), folder=tmp_path, where=scene.where, clock=PatientClock()) as made:
        await made.run()
    (run,) = scene.store.list(Filter(function="w", limit=10))
    line = _line_of('return {"n": 1 // inputs')
    async with scene.browser() as browser:
        rows = (await slice_of(browser, run.id))["rows"]
        assert [row["v"] for row in rows] == ["attempt", "step", "log"]
        assert rows[0]["t"].startswith("→ worker_crashed: ZeroDivisionError")
        panel = plain((await browser.get(f"runs/{run.id}?part=panel&op={rows[0]['i']}")).text)
        assert f"at {__file__}:{line} in broken_body" in panel
        assert "about to fail" in panel
        assert __file__ not in (await browser.text(f"runs/{run.id}?tab=data")), "the caller does not get it"


async def test_what_the_contract_marks_as_secret_is_nowhere_on_the_page(scene: Scene, tmp_path: Path) -> None:
    secret = "s3cr3t-of-the-caller"
    takes = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    graph = graph_of(WorkerNode(name="one", worker="w", inputs={"n": ref("inputs", "token")}), takes=takes)
    async with stage(
        msgspec.structs.replace(graph, steps=None), worker("w", page_body), folder=tmp_path, where=scene.where, clock=PatientClock()
    ) as made:
        await made.run({"token": secret})
    (run,) = [header for header in scene.store.list(Filter(function="p", limit=10)) if header.parent is None]
    async with scene.browser() as browser:
        assert "[redacted]" in await browser.text(f"runs/{run.id}?tab=data")
        rows = (await slice_of(browser, run.id))["rows"]
        parts = ["", "?tab=data", "?tab=events", "/timeline", "/export"]
        parts += [f"?op={row['i']}" for row in rows] + [f"/op/{row['i']}/raw" for row in rows]
        for part in parts:
            assert secret not in (await browser.get(f"runs/{run.id}{part}")).text, part
