"""`holdfast check` and `holdfast graph` of pipelines, by the real program: a file built in the sandbox, and a graph as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.pipelines.graph.graph_json import graph_text
from tests.pipelines.check_graphs import vendor_research
from tests.surface.cli_program import Program

SOURCE = """from holdfast import Pipeline

TAKES = {"type": "object", "properties": {"urls": {"type": "array", "items": {"type": "string"}}}, "required": ["urls"]}
GIVES = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
p = Pipeline("count-pages", "1.0", inputs=TAKES, outputs=GIVES)
pages = p.map("pages", "web-scrape-worker", p.inputs.urls, {"url": p.item, "extraction_spec": p.const({})}, at_most=20)
p.gives({"count": pages.counts.ok})
"""


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    (tmp_path / "pages.py").write_text(SOURCE)
    (tmp_path / "vendors.json").write_text(graph_text(vendor_research()))
    return program


def test_a_pipeline_that_is_fine_is_summed_up_and_its_workers_are_found_in_the_library(holdfast: Program) -> None:
    ended = holdfast("check", "pages.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "pages.py: count-pages 1.0 is fine, no warnings",
        "  nodes      1 map",
        "  runs       web-scrape-worker",
    ]


def test_each_problem_of_a_pipeline_has_the_authors_line_and_the_exit_code_is_2(holdfast: Program) -> None:
    wrong = SOURCE.replace("pages.counts.ok", "pages.counts").replace('"url": p.item', '"address": p.item')
    (holdfast.folder / "pages.py").write_text(wrong)
    ended = holdfast("check", "pages.py")
    assert ended.returncode == 2
    first, second, third, last = ended.stdout.splitlines()
    assert first.startswith(
        "pages.py:6: error[input_misfit] pages: `web-scrape-worker` accepts other inputs: inputs.address is not accepted."
    )
    assert second.startswith("pages.py:6: error[missing_input] pages: `web-scrape-worker` requires inputs.url, which is not given.")
    assert third.startswith(
        "pages.py:7: error[gives_misfit] The pipeline gives other outputs than its contract says: outputs.count is an object"
    )
    assert last == "pages.py: 3 errors, no warnings"
    told = json.loads(holdfast("check", "pages.py", "--json").stdout)
    assert (told["ok"], told["files"], told["pipelines"][0]["pipeline"]) == (False, [], "count-pages")
    assert [problem["code"] for problem in told["pipelines"][0]["problems"]] == ["input_misfit", "missing_input", "gives_misfit"]


def test_a_graph_as_json_is_checked_and_its_unknown_workers_are_named(holdfast: Program) -> None:
    ended = holdfast("check", "vendors.json")
    assert ended.returncode == 2
    assert ended.stdout.count("error[unknown_worker]") == 5
    (holdfast.folder / "vendors.json").write_text("{}")
    ended = holdfast("check", "vendors.json")
    assert (ended.returncode, "error[pipeline_invalid]" in ended.stdout) == (2, True)


def test_a_pipeline_is_drawn_as_text_and_as_a_picture(holdfast: Program) -> None:
    text = holdfast("graph", "vendors.json")
    assert (text.returncode, text.stderr) == (0, "")
    assert "│ map web-scrape-worker × 200 │" in text.stdout
    assert "revise ≤ 2" in text.stdout
    assert holdfast("graph", "pages.py", "--as", "svg", "--out", "pages.svg").returncode == 0
    picture = ElementTree.parse(holdfast.folder / "pages.svg").getroot()
    assert [group.attrib["data-node"] for group in picture.iter() if "data-node" in group.attrib] == ["pages"]


def test_what_cannot_be_drawn_is_one_line(holdfast: Program) -> None:
    (holdfast.folder / "empty.py").write_text("x = 1\n")
    (holdfast.folder / "two.py").write_text(
        SOURCE + SOURCE[SOURCE.index("p = ") :].replace("p = ", "q = ").replace('"count-pages"', '"other"').replace("p.", "q.")
    )
    for arguments, told in (
        (("gone.py",), "There is no file gone.py."),
        (("gone.json",), "gone.json could not be read"),
        (("empty.py",), "empty.py declares no pipeline"),
        (("two.py",), "two.py declares count-pages, other. Choose one with --pipeline ID."),
    ):
        ended = holdfast("graph", *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert told in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    assert "│ pages " in holdfast("graph", "two.py", "--pipeline", "other").stdout
