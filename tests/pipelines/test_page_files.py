"""Pages as files: their steps, the workers that they name, and everything that takes the file of a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.author_files.worker_search import served_files, worker_files, workers_for
from holdfast.lambda_api.templates.targets import find_all
from holdfast.model.errors import HoldfastError, Rejected
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.graph.graph import GIVES
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import pipeline_kit
from holdfast.workers.packages import Packages, WorkerInvalid
from holdfast.workers.policy import Policy
from tests.workers.pages import page

INLINE = WorkerSettings(policy=Policy(isolation="inline"))
ECHO = 'from holdfast import worker\n\n@worker("echo.md")\ndef echo(inputs, ctx):\n    return {"heard": inputs["said"]}\n'
STEPS = "def loud(value):\n    return {'said': value['said'].upper()}\n\nasync def later(value):\n    return value\n"
LOUD = """# Loud

Problem: Say it louder.

## Pipeline spec

```yaml
pipeline_id: {name}
version: 1.0
purpose: Say it louder.
inputs:
  - said: string
outputs:
  - heard: any
constraints:
  timeout_seconds: 7200
nodes:
{nodes}
gives: {{heard: {gives}}}
```

## Input schema

```json
{{"type": "object", "properties": {{"said": {{"type": "string"}}}}, "required": ["said"]}}
```

## Output schema

```json
{{"type": "object", "properties": {{"heard": {{}}}}, "required": ["heard"]}}
```
"""
STEP = "  - {name: loud, kind: step, function: steps.py:loud, inputs: {said: inputs.said}}"
TELL = "  - {name: tell, kind: worker, worker: echo, inputs: {said: loud.outputs.said}}"
OUTER = "  - {name: inner, kind: worker, worker: loud@1.0, inputs: {said: inputs.said}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "loud.md": LOUD.format(name="loud", nodes=f"{STEP}\n{TELL}", gives="tell.outputs.heard"),
        "outer.md": LOUD.format(name="outer", nodes=OUTER, gives="inner.outputs.heard"),
        "steps.py": STEPS,
        "echo.py": ECHO,
        "echo.md": page("echo"),
        "README.md": "# Read me\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


async def test_a_page_is_opened_as_a_workers_file_is_and_runs_with_its_steps_and_workers(folder: Path) -> None:
    async with holdfast.open(":memory:", workers=[folder / "outer.md"], worker_settings=INLINE) as engine:
        response = await engine.run("outer", {"said": "hello"})
    assert (response.status, response.outputs) == ("ok", {"heard": "HELLO"})


def test_the_testing_kit_takes_a_page(folder: Path) -> None:
    ran = pipeline_kit.run(folder / "loud.md", {"said": "hello"}, workers={"echo": {"heard": "nothing"}})
    assert (ran.status, ran.outputs, ran.stub_calls) == ("ok", {"heard": "nothing"}, (("echo", {"said": "HELLO"}),))


def test_a_page_is_found_by_the_files_beside_it_and_finds_the_workers_that_it_names(folder: Path) -> None:
    assert served_files([folder / "outer.md"]) == [folder / "loud.md", folder / "echo.py", folder / "outer.md"]
    assert {*workers_for(folder / "echo.py")} >= {"outer", "loud", "echo", "validator-worker"}
    (folder / "caller.py").write_text('def f(event, context):\n    return context.run("outer", {})\n')
    assert worker_files(folder / "caller.py") == [folder / "outer.md"]
    (folder / "outer.md").write_text("## Pipeline spec\n\nbroken\n")
    assert worker_files(folder / "caller.py") == [folder / "outer.md"]  # serving it says what is wrong
    assert "outer" not in workers_for(folder / "echo.py")


def test_serve_and_runner_take_a_page_and_a_folder_with_pages(folder: Path) -> None:
    assert find_all([str(folder / "loud.md")], {}).workers == (folder / "loud.md",)
    assert find_all([str(folder)], {}).workers == (folder / "echo.py", folder / "loud.md", folder / "outer.md")


async def test_problems_of_the_whole_have_the_lines_of_the_page(folder: Path) -> None:
    (built,) = await build(folder / "loud.md", Packages(folder / "packages"))
    lines = (folder / "loud.md").read_text().split("\n")
    assert {name: lines[line.line - 1].strip()[:9] for name, line in built.lines.items()} == {
        "loud": "- {name: ",
        "tell": "- {name: ",
        GIVES: "gives: {h",
    }
    (folder / "loud.md").write_text((folder / "loud.md").read_text().replace("worker: echo", "worker: ecco"))
    with pytest.raises(PipelineInvalid, match=r"loud.md:19: error\[unknown_worker\] tell"):
        async with holdfast.open(":memory:", workers=[folder / "loud.md"], worker_settings=INLINE):
            pass


@pytest.mark.parametrize(
    "function, told",
    [
        ("steps.py:quiet", "steps.py has no function quiet. A step needs a plain `def` at the top level."),
        ("steps.py:later", "steps.py has no function later"),
        ("gone.py:loud", "There is no file gone.py beside the page"),
        ("broken.py:loud", "broken.py, line 1: The file is not Python"),
        (".hidden.py:loud", "is not of the form `file.py:function`"),
        ("../steps.py:loud", "is not of the form `file.py:function`"),
        ("loud", "is not of the form `file.py:function`"),
        ("link.py:loud", "is a link that leaves the worker's folder"),
    ],
)
async def test_a_step_that_is_not_there_is_told_with_its_line(folder: Path, function: str, told: str) -> None:
    (folder / "broken.py").write_text("def (")
    (folder.parent / "elsewhere.py").write_text(STEPS)
    (folder / "link.py").symlink_to(folder.parent / "elsewhere.py")
    (folder / "loud.md").write_text((folder / "loud.md").read_text().replace("steps.py:loud", function))
    with pytest.raises(PipelineInvalid) as refused:
        await build(folder / "loud.md", Packages(folder / "packages"))
    assert told in str(refused.value)
    assert [problem.line for problem in refused.value.problems if told in problem.message] == [18]


async def test_steps_of_two_files_and_an_include_that_may_not_be_seen_are_refused(folder: Path) -> None:
    text = (folder / "loud.md").read_text()
    (folder / "loud.md").write_text(text.replace(STEP, STEP + "\n" + STEP.replace("name: loud", "name: b").replace("steps.py", "other.py")))
    with pytest.raises(PipelineInvalid, match="All steps must use the same file"):
        await build(folder / "loud.md", Packages(folder / "packages"))
    (folder / ".env").write_text("KEY=1")
    for file, told in ((".env", "hidden"), ("/etc/passwd", "etc/passwd"), ("../other", "other"), ("gone.json", "gone.json")):
        (folder / "loud.md").write_text(text.replace("nodes:\n", f"include: [{file}]\nnodes:\n"))
        with pytest.raises(PipelineInvalid, match=told) as refused:
            await build(folder / "loud.md", Packages(folder / "packages"))
        assert [problem.code for problem in refused.value.problems] == ["include_refused"]
    assert not (folder / "packages").exists()


async def test_a_page_that_is_no_pipeline_is_refused_with_the_reason(folder: Path) -> None:
    (folder / "agent.md").write_text("---\nname: reviewer\ndescription: Reads diffs\ntools: Read\n---\nYou review.\n")
    told = {"echo.md": "It has no `Pipeline spec`", "agent.md": "the definition of a coding agent", "gone.md": "There is no file"}
    for name, reason in told.items():
        with pytest.raises(WorkerInvalid, match=reason):
            holdfast.open(folder / "store.db", workers=[folder / name], worker_settings=INLINE)
    (folder / "trial.py").write_text('from holdfast import Pipeline\np = Pipeline("loud.md")\np.gives({})\n')
    with pytest.raises(Rejected, match="so it is a pipeline of its own"):
        await build(folder / "trial.py", Packages(folder / "packages"))


async def test_two_files_that_declare_one_pipeline_differently_are_refused(folder: Path) -> None:
    (folder / "same.md").write_text((folder / "loud.md").read_text())
    async with holdfast.open(":memory:", workers=[folder / "loud.md", folder / "same.md"], worker_settings=INLINE) as engine:
        assert (await engine.run("loud", {"said": "a"})).outputs == {"heard": "A"}
    (folder / "same.md").write_text((folder / "loud.md").read_text().replace("{said: loud.outputs.said}", "{said: inputs.said}"))
    with pytest.raises(HoldfastError, match=r"loud.md and .*same.md declare loud 1.0 differently"):
        async with holdfast.open(":memory:", workers=[folder / "loud.md", folder / "same.md"], worker_settings=INLINE):
            pass
