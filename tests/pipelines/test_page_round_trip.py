"""A graph, written as a page and read back in any rendering, is the same graph: the same nodes, the same id."""

from __future__ import annotations

import typing
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.contract.codes import Named, ResponseStatus
from holdfast.contract.terms import Contract, Field, RateLimit, Retries, RunLimits, ToolGrant
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.bounds import check_node
from holdfast.pipelines.graph.contract import contract_in, json_of
from holdfast.pipelines.graph.graph import AnyNode, Built, Graph, StepNode
from holdfast.pipelines.graph.graph_json import graph_from, graph_id, graph_text
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.layout import WIDTH
from holdfast.pipelines.page.node_fields import is_template
from holdfast.pipelines.page.reader import read_pipeline
from holdfast.pipelines.page.template_text import template_doc
from holdfast.pipelines.page.writer import _difference, page_of
from holdfast.workers.packages import Packages
from holdfast.workers.policy import Policy
from tests import parts
from tests.pipelines.pipeline_pages import NOTICE, RENDERINGS, graph_of
from tests.pipelines.templates import ref
from tests.pipelines.values import CONTRACT, GRAPHS, WHOLE

VENDORS = Path(__file__).resolve().parents[2] / "examples" / "vendor_research" / "vendor_research.py"
PACKAGE = f"{'0' * 64}/file.py"


def built_graph(graph: Graph) -> Graph:
    """A graph as the builder makes it: its contract is whole, an empty path is not a path, and steps have a package."""
    has_steps = any(isinstance(node, StepNode) for node in graph.nodes)
    plain = msgspec.structs.replace(graph, contract=json_of(contract_in(graph)), steps=PACKAGE if has_steps else None)
    return graph_from(graph_text(plain).replace('"path":[],', "").replace(',"path":[]', ""))


def same(page: str, graph: Graph) -> bool:
    """Whether a page has this graph, in all renderings."""
    found = [graph_of(rendered(page)) for rendered in RENDERINGS.values()]
    return {graph_id(msgspec.structs.replace(each, steps=graph.steps)) for each in found} == {graph_id(graph)}


@settings(max_examples=parts.examples(100), deadline=None)
@given(GRAPHS)
def test_any_graph_is_read_back_from_its_page_in_every_rendering(graph: Graph) -> None:
    plain = built_graph(graph)
    assert same(page_of(plain), plain)


def _made(hint: Any, name: str) -> st.SearchStrategy[Any]:
    """Values of a field, by its type alone."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_template(hint):
        return st.sampled_from([ref("inputs"), ref("one", "outputs", 0), ["a", 1.5, None], {"a b": ref("two", default=[])}, {}])
    if origin in (Union, UnionType):
        return st.one_of(*(st.none() if each is NoneType else _made(each, name) for each in inner))
    if origin is tuple:
        return st.lists(_made(inner[0], name), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.sampled_from(["one", "two"]), st.just({"a": 1}) if inner[1] is Any else _made(inner[1], name), max_size=2)
    if origin is Literal:
        return st.sampled_from(inner)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        fields = typing.get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{each: _made(kind, each) for each, kind in fields.items() if each in hint.__struct_fields__})
    if hint is str:
        return st.sampled_from(["", ".a[*]"] if name == "path" else ["one", "two"])
    plain = {int: st.integers(1, 20), bool: st.booleans(), Decimal: st.decimals(0, 9, places=2)}
    return plain.get(hint, st.sampled_from([1, "a", None, [{"b": True}]]))


def _legal(node: AnyNode) -> bool:
    try:
        check_node(node)
    except PipelineInvalid:
        return False
    return True


@pytest.mark.long
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.parametrize("kind", get_args(AnyNode))
def test_a_node_of_any_kind_with_any_fields_is_read_back(kind: Any, data: st.DataObject) -> None:
    """By the types of the fields alone, so that a new field and a new kind are proved without a word here."""
    node = data.draw(_made(kind, "").filter(_legal))
    graph = built_graph(Graph(contract=CONTRACT, nodes=(node,), gives={}))
    assert same(page_of(graph), graph)


def test_every_kind_of_node_and_every_field_is_read_back() -> None:
    assert {type(node) for node in WHOLE.nodes} == set(get_args(AnyNode))
    plain = built_graph(WHOLE)
    page = page_of(plain, draw_text(plain), ["data.json", "more words.txt"])
    assert same(page, plain)
    assert read_pipeline(page.encode()).include == ("data.json", "more words.txt")
    assert draw_text(plain).strip() in page


@pytest.mark.parametrize("rendered", RENDERINGS.values(), ids=RENDERINGS.keys())
def test_a_page_that_a_person_wrote_is_the_same_graph_in_every_rendering(rendered: Any) -> None:
    graph = graph_of(NOTICE)
    assert graph_id(graph_of(rendered(NOTICE))) == graph_id(graph)
    assert same(page_of(graph), graph)
    assert [node.name for node in graph.nodes] == ["size", "drafts", "check", "keep", "post"]


_WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12).map(
    lambda text: " ".join(text.split())
)
_SECONDS = st.integers(1, 9999) | st.sampled_from([0.5, 60.0, 2.25])
_RATES = st.builds(RateLimit, st.integers(1, 99), st.sampled_from([60, 1, 300, 0.5]), st.sampled_from(["tenant", "user"]), st.booleans())
_CONTRACTS = st.builds(
    Contract,
    worker_id=st.sampled_from(["a", "web-scrape_9"]),
    version=st.sampled_from(["1.0", "1.10", "2", "1.0-rc.1+b"]),
    purpose=_WORDS,
    input_schema=st.just({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    output_schema=st.just({"type": "object", "properties": {"odd name": {"type": "array"}}}),
    inputs=st.just((Field("a", "string"),)),
    outputs=st.just((Field("odd name", "array", optional=True),)),
    limits=st.builds(
        RunLimits,
        timeout_seconds=_SECONDS,
        run_timeout_seconds=st.none() | _SECONDS,
        max_tokens=st.none() | st.integers(0, 10**9),
        max_cost_usd=st.none() | st.sampled_from([Decimal("0.50"), Decimal("3"), Decimal("1E-7")]),
        tool_quotas=st.sampled_from([{}, {"fetch_url": 3}]),
        tools=st.sampled_from([(), (ToolGrant("fetch_url"), ToolGrant("parameter_store", optional=True))]),
    ),
    egress=st.sampled_from([None, (), ("shop.example",)]),
    retries=st.builds(Retries, max_attempts=st.integers(1, 3), backoff=st.sampled_from(["exponential", "none"])),
    rate_limit=st.none() | _RATES,
    schedule=st.none(),
    errors=st.sampled_from([{}, {"x": Named("x", False, ResponseStatus.NEEDS_HUMAN, True), "y": Named("y", True), "z": Named("z")}]),
    log_fields=st.sampled_from([("worker_id", "status"), ("worker_id", "attempt", "duration_ms", "status", "error_code")]),
)  # fmt: skip


@settings(max_examples=parts.examples(100), deadline=None)
@given(_CONTRACTS)
def test_any_contract_is_read_back_from_its_page(contract: Contract) -> None:
    graph = graph_from(graph_text(Graph(contract=json_of(contract), nodes=(), gives={})))
    assert same(page_of(graph), graph)


def test_a_limit_of_zero_is_read_back_from_its_page() -> None:
    wanted = {**CONTRACT, "limits": {"max_tokens": 0}}
    graph = built_graph(Graph(contract=wanted, nodes=(), gives={}))
    assert same(page_of(graph), graph)
    assert '"max_tokens": 0' in page_of(graph)


async def _built(file: Path, packages: Packages, policy: Policy = Policy(isolation="inline")) -> Built:  # noqa: B008  frozen
    (built,) = await build(file, packages, policy)
    return built


async def test_the_example_as_a_page_is_the_graph_that_its_file_builds(tmp_path: Path) -> None:
    python = await _built(VENDORS, Packages(tmp_path / "packages"), Policy())
    page = tmp_path / "vendor.md"
    page.write_text(page_of(python.graph, draw_text(python.graph)))
    assert graph_id((await _built(page, Packages(tmp_path / "packages"))).graph) == graph_id(python.graph)
    assert same(page.read_text(), python.graph)
    assert "inputs: {pages: pages.ok.outputs}" in page.read_text()


async def test_a_page_with_steps_has_the_package_of_the_python_file_that_it_was_made_of(tmp_path: Path) -> None:
    """The functions, the files that they read, and the terms of the contract as a file writes them."""
    (tmp_path / "sums.json").write_text("[1]")
    (tmp_path / "trial.py").write_text(
        "from holdfast import Pipeline\n"
        'TAKES = {"type": "object", "$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}}\n'
        'p = Pipeline("trial", "1.0", inputs=TAKES, outputs={"type": "object"}, purpose="Two\\n lines: #1.", timeout="2h",\n'
        '             max_cost_usd="0.50", include=["sums.json"])\n'
        "def tidy(value):\n    return value\n"
        'p.gives({"x": p.step("tidy", tidy, p.inputs).outputs})\n'
    )
    packages = Packages(tmp_path / "packages")
    python = await _built(tmp_path / "trial.py", packages)
    (tmp_path / "trial-page.md").write_text(page_of(python.graph, include=python.include))
    page = await _built(tmp_path / "trial-page.md", packages)
    assert page.graph == python.graph
    assert graph_id(page.graph) == graph_id(python.graph)
    assert page.graph.steps is not None
    assert packages.find(page.graph.steps, "it") is not None
    assert contract_in(page.graph).purpose == "Two lines: #1."


@pytest.mark.parametrize(
    "path, text",
    [
        (("ok", "*", "outputs"), "pages.ok.outputs"),
        (("failed", "*", "error", "message"), "pages.failed.error.message"),
        (("ok", 0, "outputs"), "pages.ok[0].outputs"),
        (("ok", "*"), "pages.ok[*]"),
        (("ok", "*", "length"), 'pages.ok[*]["length"]'),
        (("ok", "outputs"), 'pages.ok["outputs"]'),
        (("counts", "ok", "each"), 'pages.counts.ok["each"]'),
        (("items", "*", "*", "odd name"), 'pages.items[*][*]["odd name"]'),
    ],
)
def test_references_to_the_items_of_a_map_are_written_as_in_python(path: tuple[str | int, ...], text: str) -> None:
    assert template_doc(ref("pages", *path), {"pages"}) == text
    over = "  - {name: pages, kind: map, worker: w, over: [], inputs: item, at_most: 1}"
    assert graph_of(f"# A\n\n## Pipeline spec\n\n```yaml\n{HEAD}nodes:\n{over}\ngives: {text}\n```\n").gives == ref("pages", *path)


HEAD = "pipeline_id: a\nversion: 1\npurpose: p\ninputs: []\noutputs: []\nconstraints: {timeout_seconds: 5}\n"


@pytest.mark.parametrize(
    "template, text",
    [
        (ref("42", "outputs"), 'node["42"].outputs'),
        (ref("true"), 'node["true"]'),
        (ref("node", "a"), 'node["node"].a'),
        (ref("a-b", "x_y", "é", 'q"', 3), 'a-b.x_y["é"]["q\\""][3]'),
        (ref("a", "length", length=True, default=None), 'a["length"].length.default(null)'),
        ({"$const": {"$from": "a"}}, 'const({"$from": "a"})'),
        ({"$text": "{}, {}", "with": [ref("a"), {"$concat": []}]}, 'text("{}, {}", a, concat())'),
        ([1, -2.5, True, None, "a", {"b-c": {}, "d e": []}], '[1, -2.5, true, null, "a", {b-c: {}, "d e": []}]'),
    ],
)
def test_each_form_of_a_template_has_one_text(template: Any, text: str) -> None:
    assert str(template_doc(template, ())) == text
    assert graph_of(f"# A\n\n## Pipeline spec\n\n```yaml\n{HEAD}nodes: []\ngives: {text}  # so\n```\n").gives == template


def test_a_long_value_goes_over_lines_between_brackets() -> None:
    graph = built_graph(msgspec.structs.replace(WHOLE, gives={f"name-{at}": ref("inputs", "a" * 20, at) for at in range(20)}))
    page = page_of(graph)
    assert max(len(line) for line in page.split("\n")) <= WIDTH + 10
    assert same(page, graph)


def test_a_graph_that_says_what_no_page_can_say_is_refused_with_what() -> None:
    title = built_graph(WHOLE).contract | {"title": "two\nlines"}
    with pytest.raises(PipelineInvalid, match="would differ in `title` of its contract"):
        page_of(msgspec.structs.replace(built_graph(WHOLE), contract=title))


def test_the_part_in_which_two_graphs_differ_is_named() -> None:
    whole = built_graph(WHOLE)
    shorter = msgspec.structs.replace(whole, nodes=whole.nodes[:-1])
    strict = msgspec.structs.replace(whole, gates="required" if whole.gates == "advised" else "advised")
    last = f"the node `{whole.nodes[-1].name}`"
    assert (_difference(whole, shorter), _difference(shorter, whole), _difference(whole, strict)) == (last, last, "`gates`")
    assert _difference(whole, msgspec.structs.replace(whole, gives={})) == "what it gives"
