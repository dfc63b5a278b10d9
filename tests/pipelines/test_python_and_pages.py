"""Any pipeline that a Python file writes is the same graph as its page: random files, built, written as a page, and built again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.builder.build import build
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.graph import Built
from holdfast.pipelines.graph.graph_json import graph_id
from holdfast.pipelines.page.writer import page_of
from holdfast.workers.packages import Packages
from holdfast.workers.policy import Policy
from tests import parts

HEAD = """from holdfast import Pipeline

ANY = {{"type": "object"}}


def tidy(value):
    return value


def turned(value):
    return value


p = Pipeline("trial", "1.0", inputs=ANY, outputs=ANY, purpose={purpose!r}{limits})
"""
_WORDS = st.sampled_from(["plain", "a: b", "it's", '"quoted"', "# no comment", "{}", "- item", "ü ≠ u", "null", "3", "trailing  blanks"])
_KEYS = st.sampled_from(["x", "odd name", "length", "default", "outputs", "42", "é"])
_WORKERS = st.sampled_from(["w", "other-worker@1.2", "x9"])
_DURATIONS = st.sampled_from(["30s", "10m", "2h", "7d"])


@st.composite
def _values(draw: st.DrawFn, before: list[str], depth: int = 2) -> str:
    """An expression for an input: a reference, a constant, a text, a concatenation, or a document of these."""
    kinds = ["input", "input", "constant", "text", *(["node"] * 3 if before else []), *(["list", "dict", "concat"] if depth else [])]
    inner = _values(before, depth - 1)
    match draw(st.sampled_from(kinds)):
        case "input":
            return draw(st.sampled_from(["p.inputs", "p.inputs.a", "p.inputs['odd name']", "p.inputs.a.b[0]", "p.inputs.xs.length"]))
        case "node":
            path = draw(st.sampled_from([".outputs", ".outputs.x", ".outputs.x[0].y", ".outputs.x.default(None)", ".outputs['length']"]))
            return f"{draw(st.sampled_from(before))}{path}"
        case "constant":
            return draw(st.sampled_from(["1", "-2.5", "None", "True", "p.const({'$from': [1, {}]})", "p.const([])"]))
        case "text":
            return draw(st.one_of(_WORDS.map(repr), st.just("p.text('{} of {}', p.inputs.a, p.inputs.b)")))
        case "list":
            return f"[{', '.join(draw(st.lists(inner, max_size=2)))}]"
        case "dict":
            return "{" + ", ".join(f"{key!r}: {value}" for key, value in draw(st.dictionaries(_KEYS, inner, max_size=2)).items()) + "}"
        case _:
            return f"p.concat({draw(inner)}, p.inputs.xs)"


@st.composite
def _common(draw: st.DrawFn, before: list[str]) -> str:
    """What every node takes."""
    told = draw(st.sampled_from(["", *(f", after=[{each}]" for each in before)]))
    told += draw(st.sampled_from(["", "", ", when=p.inputs.n.at_least(2)", ", when=[p.inputs.a.equals('x'), p.inputs.b.exists()]"]))
    told += draw(st.sampled_from(["", ", on_failure='skip'", ", on_failure={'access_denied': 'escalate', '*': 'fail'}"]))
    told += draw(st.sampled_from(["", ", timeout='10m'", ", max_tokens=500", ", max_cost_usd='0.50'"]))
    return told


@st.composite
def _nodes(draw: st.DrawFn, name: str, before: list[str]) -> str:
    """A statement that adds a node."""
    value, worker, more = draw(_values(before)), draw(_WORKERS), draw(_common(before))
    safe = draw(st.sampled_from(["", ", fallback=['small']", ", undo='undoer'"]))
    rule = "[{'path': '.n', 'op': 'at_least', 'value': 3, 'code': 'few', 'message': 'Too few: add.', 'severity': 'error'}]"
    match draw(st.sampled_from(["worker", "pipeline", "map", "merge", "gate", "human", "route", "step", "wait", "supervise", "until"])):
        case "worker" | "pipeline" as kind:
            safe = draw(st.sampled_from([safe, ", undo=('undoer', {'id': p.this.outputs.id})"]))
            return f"p.{kind}({name!r}, {worker!r}, {{'v': {value}}}{safe}{more})"
        case "map":
            items = draw(st.sampled_from(["at_most=3", "at_most=200, at_once=2, tolerate='20%'", "at_most=9, tolerate=2"]))
            return f"p.map({name!r}, {worker!r}, p.inputs.xs, {{'v': p.item, 'at': p.index, 'w': {value}}}, {items}{safe}{more})"
        case "merge":
            how = draw(
                st.sampled_from(["policy='union', key='id'", "policy='majority', conflicts='escalate'", "worker='aggregator-worker'"])
            )
            return f"p.merge({name!r}, {{'one': p.inputs.a, 'two': {value}}}, {how}{more})"
        case "gate":
            by = draw(st.sampled_from([f"{worker!r}, {{'v': {value}}}", f"candidate={{'v': {value}}}, rules={rule}, on_block='escalate'"]))
            return f"p.gate({name!r}, {by}, shadow={draw(st.booleans())}{more})"
        case "human":
            who = draw(
                st.sampled_from(["", ", approvers=['ann', 'leads'], votes=2, then=[('4h', ['head']), ('1d', ['boss'])], within='3d'"])
            )
            form = draw(st.sampled_from(["", ", form={'type': 'object', 'properties': {'n': {'type': 'integer'}}}", ", risk='high'"]))
            return f"p.human({name!r}, show={{'v': {value}}}, question={draw(_WORDS)!r}{who}{form}, on_silence='skip'{more})"
        case "route":
            labels = "{'few': p.inputs.n.at_most(2), 'many': p.inputs.n.at_least(3)}"
            by = draw(st.sampled_from([f"{worker!r}, {{'v': {value}}}, labels=['a', 'b-c']", f"rules={labels}, otherwise='many'"]))
            return f"p.route({name!r}, {by}{more})"
        case "step":
            return f"p.step({name!r}, {draw(st.sampled_from(['tidy', 'turned']))}, {{'v': {value}}}{more})"
        case "wait":
            return f"p.wait({name!r}, {draw(_DURATIONS)!r}{more})"
        case "supervise":
            return (
                f"p.supervise({name!r}, {worker!r}, {{'v': {value}}}, choices={{'a': 'w', 'b-c': 'x9'}}, turns=4, undo={{'a': 'u'}}{more})"
            )
        case _:
            return f"p.until({name!r}, {worker!r}, {{'v': {value}}}, rules={rule}, at_most=5, every={draw(_DURATIONS)!r}{more})"


@st.composite
def sources(draw: st.DrawFn) -> str:
    """A Python file with a pipeline."""
    limits = draw(st.sampled_from(["", ", timeout='2h', max_cost_usd='0.50'", ", max_tokens=9000, gates='required'"]))
    lines, before, names = [HEAD.format(purpose=draw(_WORDS), limits=limits)], list[str](), ["one", "two-2", "42", "node", "inputs-x"]
    for at, name in enumerate(names[: draw(st.integers(1, len(names)))]):
        statement = draw(_nodes(name, before))
        lines.append(f"n{at} = {statement}\n")
        if not statement.startswith(("p.wait", "p.route", "p.map")):
            before.append(f"n{at}")
    return "".join([*lines, f"p.gives({{'v': {draw(_values(before))}}})\n"])


@settings(max_examples=parts.examples(60), deadline=None)
@given(sources())
async def test_any_pipeline_of_a_python_file_is_the_same_graph_as_its_page_and_back(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        python, page = Path(folder) / "trial.py", Path(folder) / "trial-page.md"
        packages = Packages(Path(folder) / "packages")
        python.write_text(source)
        written = await _built(python, packages)
        text = page_of(written.graph, draw_text(written.graph))
        page.write_text(text)
        read = await _built(page, packages)
    assert graph_id(read.graph) == graph_id(written.graph), source
    assert page_of(read.graph, draw_text(read.graph)) == text, source


async def _built(file: Path, packages: Packages) -> Built:
    (built,) = await build(file, packages, Policy(isolation="inline"))
    return built
