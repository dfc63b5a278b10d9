"""`holdfast check` of a pipeline looks into the pipelines that it runs, also those of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.check_pipelines import checked_pipelines
from tests.workers.pages import page

ANY = '{"type": "object"}'


def pipeline(name: str, *lines: str) -> str:
    return "\n".join(
        ["from holdfast import Pipeline", f'p = Pipeline("{name}", "1.0", inputs={ANY}, outputs={ANY})', *lines, "p.gives({})"]
    )


WRITER = """from holdfast import tool, worker

@tool(effect="write")
def post(call): ...

@worker("writer.md")
def writer(inputs, ctx): ...
"""


def codes(folder: Path, **files: str) -> list[tuple[str, str | None]]:
    """The problems of the pipeline in `outer`."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (checked,) = checked_pipelines(folder / "outer.py", [], "process")
    return [(problem.code, problem.node) for problem in checked.problems]


def test_pipelines_of_two_files_that_run_each_other_are_found(tmp_path: Path) -> None:
    outer, inner = pipeline("outer", 'p.pipeline("sub", "inner", {})'), pipeline("inner", 'p.pipeline("back", "outer", {})')
    assert codes(tmp_path, outer=outer, inner=inner) == [("unbounded_loop", "sub"), ("unreachable_node", "sub")]


@pytest.mark.parametrize(
    "inside, found",
    [
        pytest.param('p.worker("w", "writer", {})', True, id="ungated"),
        pytest.param('h = p.human("h", show=1); p.worker("w", "writer", {}, after=h)', False, id="guarded", marks=pytest.mark.long),
    ],
)
def test_a_side_effect_inside_a_pipeline_of_another_file_needs_a_gate(tmp_path: Path, inside: str, found: bool) -> None:
    (tmp_path / "writer.md").write_text(page("writer", "post"))
    outer = pipeline("outer", 'p.pipeline("sub", "inner", {})')
    told = codes(tmp_path, outer=outer, inner=pipeline("inner", inside), writer=WRITER)
    assert told == ([("ungated_effect", "sub")] if found else [])
