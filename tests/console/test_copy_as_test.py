"""A run as a Python test: its text compiles whatever was in the run, runs green, and has no secret."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console.run_as_test import CallbackAnswer, Gave, RecordedRun, written
from holdfast.console.sources import run_tests
from holdfast.durable import DurableContext, InvokeError, durable_execution
from holdfast.durable.config import InvokeConfig
from tests.console import serving_scene
from tests.console.serving_scene import ServingScene, serving

_ROOT = Path(__file__).parents[2]
_texts = st.text(max_size=20)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


async def _text(stage: ServingScene, run: str, tenant: str | None = None) -> str:
    async with stage.browser("viewer", tenant=tenant) if tenant else stage.browser() as person:
        answer = await person.get(f"runs/{run}/test/file")
    assert answer.headers["content-disposition"].startswith('attachment; filename="test_')
    compile(answer.text, "test_run.py", "exec")
    return answer.text


def _pytest(asked: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(_ROOT), "PATH": ""}
    return subprocess.run(asked, cwd=_ROOT, capture_output=True, text=True, timeout=60, check=False, env=environment)


def _green(text: str, file: str | Path = "") -> None:
    """Run the tests of a text, in this process."""
    scope: dict[str, Any] = {"__name__": "test_run"}
    exec(compile(text, "test_run.py", "exec"), scope)
    if file:
        scope["FILE"] = str(file)
    tests = [one for name, one in scope.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


async def test_a_function_becomes_a_test_that_pytest_runs_green(stage: ServingScene, tmp_path: Path) -> None:
    execution = stage.engine.start("order", {"price": 3}).id
    stage.over(execution)
    text = await _text(stage, execution)
    assert "from tests.console.serving_scene import order" in text
    assert "INPUT = {'price': 3}" in text
    (tmp_path / "test_order_again.py").write_text(text)
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path / "test_order_again.py")]
    ran = await asyncio.to_thread(_pytest, asked)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


async def test_a_failed_function_becomes_a_test_of_its_failure(stage: ServingScene) -> None:
    execution = stage.engine.start("order", {"price": 200, "password": "hunter2-secret"}).id
    stage.over(execution)
    text = await _text(stage, execution)
    assert "hunter2-secret" not in text
    assert "result.status == 'FAILED'" in text
    await asyncio.to_thread(_green, text)


async def test_a_worker_becomes_a_test_with_the_answers_of_its_tools(stage: ServingScene, tmp_path: Path) -> None:
    run = stage.engine.run("say", {"text": "hello", "token": "s3cr3t-value"}).run_id
    text = await _text(stage, run)
    assert "s3cr3t-value" not in text
    assert "'token': '[redacted]'" in text
    assert "TOOLS" in text
    await asyncio.to_thread(_green, text, tmp_path / "code" / "worker.py")


async def test_a_secret_that_a_worker_says_again_is_nowhere(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "my s3cr3t-value is out", "token": "s3cr3t-value"}).run_id
    text = await _text(stage, run)
    assert "s3cr3t-value" not in text
    assert "The outputs are not compared" in text


async def test_a_pipeline_becomes_a_test_with_what_people_decided(stage: ServingScene, tmp_path: Path) -> None:
    for n in (5, 60):
        run = stage.engine.run("flow", {"n": n}, wait=0.0).run_id
        stage.over_or_asks(run)
        stage.decide(run)
        text = await _text(stage, run)
        assert "DECISIONS = {'sign-off': 'approve'}" in text
        await asyncio.to_thread(_green, text, tmp_path / "code" / "flow.py")


async def test_without_the_contract_no_value_of_a_worker_is_shown(stage: ServingScene) -> None:
    run = stage.engine.run("say", {"text": "hello-there", "times": 770077, "token": "s3cr3t-value"}).run_id
    stage.served = None
    text = await _text(stage, run)
    for value in ("hello-there", "770077", "s3cr3t-value"):
        assert value not in text


@durable_execution
def asks(event: dict[str, Any], context: DurableContext) -> str:
    """Asks a worker twice, and returns nothing of what it said."""
    for text in event["texts"]:
        context.run("say", {"text": text}, name="say", check=False)
    return "done"


@durable_execution
def invokes(event: dict[str, Any], context: DurableContext) -> str:
    """Invokes a function several times, and goes on if it fails."""
    for number, price in enumerate(event["prices"]):
        try:
            config = InvokeConfig[Any, Any](tenant_id=event.get("tenant"))
            context.invoke("order", {"price": price}, name=f"order-{number}", config=config)
        except InvokeError:
            continue
    return "done"


async def test_without_its_contract_no_value_of_a_worker_that_a_function_ran_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_scene, "FUNCTIONS", [asks])
    monkeypatch.setattr(serving_scene, "WORKERS", serving_scene.WORKERS.replace("there was none", "outputs-of-the-worker"))
    monkeypatch.setattr(serving_scene, "WORKERS", serving_scene.WORKERS.replace('["posted"]}', '["posted"] + ", outputs-of-the-worker"}'))
    with serving(tmp_path) as stage:
        execution = stage.engine.start("asks", {"texts": ["hello", "bad"]}).id
        stage.over(execution)
        known = await _text(stage, execution)
        stage.served = None
        text = await _text(stage, execution)
    assert known.count("outputs-of-the-worker") == 2
    assert "outputs-of-the-worker" not in text
    assert "{'said': '[redacted]'}" in text


async def test_what_goes_on_is_no_test_yet_and_other_tenants_get_none(stage: ServingScene) -> None:
    run = stage.engine.run("flow", {"n": 1}, wait=0.0).run_id
    stage.over_or_asks(run)
    over = stage.engine.run("say", {"text": "a"}).run_id
    async with stage.browser() as person:
        assert "The run is not over yet: a test needs its result." in await person.text(f"runs/{run}/test")
        assert "def test_say_ends_as_it_did" in await person.text(f"runs/{over}/test")
    async with stage.browser("viewer", tenant="other") as person:
        await person.get(f"runs/{over}/test", expect=404)
        await person.get(f"runs/{over}/test/file", expect=404)


@given(_texts, _json, _json, st.sampled_from(["function", "worker", "pipeline"]), st.none() | _texts)
def test_any_run_becomes_a_text_that_compiles(name: str, inputs: Any, outputs: Any, kind: str, error: str | None) -> None:
    answers = {name: [Gave(given=inputs, value=outputs), Gave(given=inputs, error=error or "x", message=name)]}
    recorded = RecordedRun(
        kind=kind,
        function=name,
        run="0",
        day="2026-01-31",
        module=name,
        attribute=name,
        file=name,
        inputs=inputs,
        outputs=outputs,
        workers=answers,
        functions={} if kind != "function" else answers,
        tools=answers,
        callbacks=[CallbackAnswer(name=name, text=name), CallbackAnswer(name=None, error=error)],
        decisions={name: [outputs]},
        status="ok",
        error=error,
    )
    compile(written(recorded), "test_run.py", "exec")


def test_a_value_that_is_left_out_is_told_wherever_it_stands() -> None:
    large, deep = "x" * 60_000, list[Any]()
    for _ in range(100_000):
        deep = [deep]
    for value, why in ((large, "it has 60,002 characters"), (deep, "it is too deep")):
        answers = {"say": [Gave(given=value, value=value)]}
        recorded = RecordedRun(kind="function", function="f", run="0", day="2026-01-31", inputs=value, workers=answers, tools=answers)
        values = "INPUT" + written(recorded).partition("\nINPUT")[2].partition("\ndef ")[0]
        assert values.count(f"None  # left out: {why}\n") == 4
        scope: dict[str, Any] = {"Any": Any}
        exec(values, scope)
        assert scope["WORKERS"] == {"say": [(None, (None,))]}
        assert scope["TOOLS"] == {"say": [None]}


def _recorded(**more: Any) -> str:
    return written(RecordedRun(**{"kind": "function", "function": "f", "run": "0", "day": "2026-01-31", **more}))


def test_a_test_without_crashes_says_why() -> None:
    for more, why in (
        ({"error": "ValueError"}, "the execution failed"),
        ({"callbacks": [CallbackAnswer(name="a", error="no")]}, "a callback failed"),
        ({"callbacks": [CallbackAnswer(name="a", text="1"), CallbackAnswer(name="a", text="2")]}, "several callbacks have the same name"),
        ({"kind": "worker", "error": "no_luck"}, "the run failed"),
    ):
        text = _recorded(**more)
        assert f"# There is no test of crashes here: {why}." in text
        assert "crash_everywhere(" not in text
        compile(text, "test_run.py", "exec")
    assert "There is no test of crashes" not in _recorded(
        callbacks=[CallbackAnswer(name="a", text="1"), CallbackAnswer(name="b", text="2")]
    )


async def test_runs_and_calls_above_the_bound_are_told_as_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "MOST_CHILDREN", 1)
    monkeypatch.setattr(serving_scene, "FUNCTIONS", [asks])
    monkeypatch.setattr(
        serving_scene, "WORKERS", serving_scene.WORKERS.replace('return {"said', 'ctx.tools.post(text="x")\n    return {"said')
    )
    with serving(tmp_path) as stage:
        execution = stage.engine.start("asks", {"texts": ["hello", "there"]}).id
        stage.over(execution)
        asked = await _text(stage, execution)
        called = await _text(stage, stage.engine.run("say", {"text": "a"}).run_id)
    assert "# The test has only the first 1 runs that this run asked for." in asked
    assert "# The test has only the first 1 calls of tools." in called


async def test_children_without_an_answer_and_secrets_of_children_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_scene, "FUNCTIONS", [invokes, serving_scene.order])
    with serving(tmp_path) as stage:
        execution = stage.engine.start("invokes", {"prices": [3, 200, 300]}).id
        stage.over(execution)
        text = await _text(stage, execution)
    assert "# 2 runs that this run asked for have no answer: they are left out." in text


async def test_children_of_another_tenant_are_told_as_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_scene, "FUNCTIONS", [invokes, serving_scene.order])
    with serving(tmp_path) as stage:
        execution = stage.engine.start("invokes", {"prices": [3], "tenant": "b"}).id
        stage.over(execution)
        seen, hidden = await _text(stage, execution), await _text(stage, execution, tenant="default")
    assert ("'order'" in seen, "left out" in seen) == (True, False)
    assert "# 1 run that this run asked for has another tenant: it is left out." in hidden


def test_answers_that_the_test_cannot_give_are_told() -> None:
    left = run_tests._LeftOut()
    assert left.notes(False, {"say": [Gave(given=1, value=2), Gave(given=1, value=2)]}) == []
    assert left.notes(False, {"say": [Gave(given=1, value=2), Gave(given=1, value=3)]}) == [run_tests._DIFFERS]
    assert left.notes(False, {"say": [Gave(given=1, value="[redacted]")]}) == [run_tests._SECRETS_NOTE]
    assert left.notes(True, {"say": [Gave(given=1, value="[redacted]")]}) == []
    left.undecided, left.calls = 1, 2
    assert left.notes(False) == [
        "2 calls of a tool have no answer that counts: they are left out.",
        "1 question has no decision: it is left out.",
    ]
