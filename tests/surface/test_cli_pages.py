"""Pages of pipelines, by the real program: a new one, its problems, its drawing, its run, and a Python file written as a page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.pipelines.builder import build_page
from tests.pipelines.pipeline_pages import problems_of
from tests.surface.cli_program import Program
from tests.surface.serve_program import programs
from tests.surface.served_workers import ask, web
from tests.surface.test_cli_graph import SOURCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_new_pipeline_is_fine_is_drawn_on_its_page_and_runs_as_it_is(program: Program) -> None:
    made = program("new", "pipeline", "Tea-Time", "--in", "my pipelines")
    assert made.returncode == 0, made.stderr
    folder = program.folder / "my pipelines" / "Tea-Time"
    names = ["Tea-Time.md", "case.json", "digest-worker.md", "line-worker.md", "notice_workers.py", "steps.py", "test_tea_time.py"]
    assert made.stdout.splitlines() == [f"my pipelines/Tea-Time/{name}" for name in names]
    program.folder = folder
    checked = program("check", "Tea-Time.md", "notice_workers.py")
    assert (checked.returncode, checked.stdout.count("is fine, no warnings")) == (0, 3)
    assert program("graph", "Tea-Time.md").stdout.rstrip() in (folder / "Tea-Time.md").read_text()
    ran = program("run", "Tea-Time.md", "--input", "@case.json", "--key", "first")
    assert (ran.returncode, json.loads(ran.stdout)["text"].splitlines()[0]) == (0, "1. a market on Monday")
    again = program("new", "pipeline", "Tea-Time", "--in", "..")
    assert (again.returncode, "nothing was written" in again.stderr) == (2, True)
    taken = program("new", "pipeline", "line-worker")
    assert (taken.returncode, "is the name of another file of the new folder" in taken.stderr) == (2, True)


@pytest.mark.long
def test_the_test_of_a_new_pipeline_passes_and_its_page_is_served(program: Program) -> None:
    assert program("new", "pipeline", "tea").returncode == 0
    folder = program.folder / "tea"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder, env={**program.environment, "PYTEST_ADDOPTS": "-p no:asyncio"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (tested.returncode, "4 passed" in tested.stdout) == (0, True), tested.stdout
    with programs(folder) as started, web(started.begun("tea.md").started("/v1/workers/")) as client:
        answer = ask(client, "tea", {"topics": ["tea"]}, idempotency_key="k").json()
    assert (answer["status"], answer["outputs"]) == ("ok", {"text": "1. There will be tea, and all are welcome.", "left_out": 0})


def test_each_problem_of_a_page_has_its_file_and_line_and_the_exit_code_is_2(program: Program) -> None:
    (program.folder / "pages.py").write_text(SOURCE)
    page = program("graph", "pages.py", "--as", "page")
    assert (page.returncode, page.stderr) == (0, "")
    file = program.folder / "pages.md"
    file.write_text(page.stdout)
    fine = program("check", "pages.md")
    assert fine.stdout.splitlines()[1:] == [
        "pages.md: count-pages 1.0 is fine, 1 warning",
        "  nodes      1 map",
        "  runs       web-scrape-worker",
    ]
    wrong = page.stdout.replace("gives: {count: pages.counts.ok}", "gives: {count: pages.counts}").replace("url: item}", "address: item}")
    file.write_text(wrong)
    ended = program("check", "pages.md")
    assert ended.returncode == 2
    at = 1 + wrong.split("\n").index("  - name: pages")
    assert f"pages.md:{at}: error[missing_input] pages: `web-scrape-worker` requires inputs.url" in ended.stdout
    gives = 1 + wrong.split("\n").index("gives: {count: pages.counts}")
    assert f"pages.md:{gives}: error[gives_misfit]" in ended.stdout
    file.write_text(wrong.replace("kind: map", "kind: maps"))
    told = json.loads(program("check", "pages.md", "--json").stdout)
    (found,) = [problem for problem in told["pipelines"][0]["problems"] if problem["level"] == "error"]
    assert (found["code"], found["line"], told["ok"]) == ("unknown_kind", {"file": "pages.md", "line": at + 1}, False)
    assert found["message"].startswith("Pipeline spec: `maps` is not a kind of a node. Did you mean `map`?")


@pytest.mark.long
def test_a_python_file_and_its_page_are_drawn_the_same_and_what_is_no_pipeline_is_one_line(program: Program) -> None:
    (program.folder / "pages.py").write_text(SOURCE)
    assert program("graph", "pages.py", "--as", "page", "--out", "pages.md").returncode == 0
    drawn = program("graph", "pages.py").stdout
    assert program("graph", "pages.md").stdout == drawn
    assert drawn.rstrip() in (program.folder / "pages.md").read_text()
    assert program("graph", "pages.md", "--as", "page").stdout == (program.folder / "pages.md").read_text()
    (program.folder / "agent.md").write_text("---\nname: a\ndescription: b\ntools: Read\n---\nYou read.\n")
    for words in (("run", "agent.md"), ("check", "agent.md")):
        ended = program(*words)
        assert (ended.returncode, "the definition of a coding agent" in ended.stdout + ended.stderr) == (2, True)
    gone = program("graph", "gone.md")
    assert (gone.returncode, gone.stderr) == (2, "error[pipeline_invalid]: There is no file gone.md.\n")


def test_the_page_about_pipeline_md_explains_every_problem_and_its_example_has_none() -> None:
    page = (ROOT / "docs" / "reference" / "pipeline-md.md").read_text(encoding="utf-8")
    places = [*sorted((ROOT / "src" / "holdfast" / "pipelines" / "page").glob("*.py")), Path(build_page.__file__)]
    source = "".join(path.read_text(encoding="utf-8") for path in places)
    codes = set(re.findall(r'(?:\.error|_error|_problem|_wrong)\(\s*(?:f?"[^"]*", )?"(\w+)"', source))
    codes |= set(re.findall(r'(?:"[.\w]*|what|told|line), "(\w+_\w+)"\)', source)) | {"bad_value", "too_deep"}
    assert codes == set(re.findall(r"^\| `(\w+)` \| error", page, re.M))
    (example,) = re.findall(r"^````markdown\n(.*?)^````$", page, re.M | re.S)
    assert problems_of(example) == []
