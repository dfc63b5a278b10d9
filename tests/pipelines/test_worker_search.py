"""Workers and pipelines that a file names are found in its folder, also those that only a pipeline in another file names."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.author_files.worker_search import served_files, worker_files, workers_for
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy
from tests.workers.pages import page

ANY = '{"type": "object"}'
OUTER = f"""from holdfast import Pipeline

p = Pipeline("outer", "1.0", inputs={ANY}, outputs={ANY})
inner = p.worker("inner", "inner", {{"said": p.inputs.said}})
p.gives({{"heard": inner.outputs.heard}})
"""
INNER = f"""from holdfast import Pipeline

p = Pipeline("inner", "1.0", inputs={ANY}, outputs={ANY})
echo = p.worker("echo", "echo", {{"said": p.inputs.said}})
p.gives({{"heard": echo.outputs.heard}})
"""
ECHO = """from holdfast import worker

@worker("echo.md")
def echo(inputs, ctx):
    return {"heard": inputs["said"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"outer.py": OUTER, "inner.py": INNER, "echo.py": ECHO, "echo.md": page("echo")}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_file_is_served_with_everything_that_its_pipelines_name(folder: Path) -> None:
    assert served_files([folder / "outer.py"]) == [folder / "inner.py", folder / "echo.py", folder / "outer.py"]
    assert served_files([folder / "inner.py", folder / "echo.py"]) == [folder / "inner.py", folder / "echo.py"]
    assert {*workers_for(folder / "outer.py")} >= {"outer", "inner", "echo", "validator-worker"}


def test_a_function_names_a_pipeline_like_a_worker(folder: Path) -> None:
    caller = folder / "caller.py"
    caller.write_text('def f(event, context):\n    return context.run("outer@1.0", {})\n')
    assert worker_files(caller) == [folder / "outer.py"]


async def test_a_pipeline_runs_a_pipeline_of_another_file(folder: Path) -> None:
    settings = WorkerSettings(policy=Policy(isolation="inline"))
    async with holdfast.open(":memory:", workers=[folder / "outer.py"], worker_settings=settings) as engine:
        response = await engine.run("outer", {"said": "hello"})
    assert (response.status, response.outputs) == ("ok", {"heard": "hello"})
