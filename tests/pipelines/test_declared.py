"""Which pipelines a file declares, found in its source without running it."""

from __future__ import annotations

import pytest

from holdfast.pipelines.builder.contract import contract_of_arguments
from holdfast.pipelines.builder.declared import DeclaredPipeline, pipelines_of
from holdfast.pipelines.graph.contract import contract_in, json_of
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.refusals import PipelineInvalid

IMPORT = "from holdfast import Pipeline\n"


@pytest.mark.parametrize(
    "source",
    [
        'from holdfast import Pipeline\np = Pipeline("x.md")\n',
        'from holdfast import Pipeline as P\np = P("x.md")\n',
        'import holdfast\np = holdfast.Pipeline("x.md")\n',
        'import holdfast as hf\np: hf.Pipeline = hf.Pipeline("x.md")\n',
        'from holdfast import Pipeline\np = Pipeline(page_or_id="x.md")\n',
        'from holdfast import Pipeline\nPAGE = "x.md"\np = Pipeline(PAGE)\n',
    ],
)
def test_a_pipeline_with_a_page_is_found_under_any_name(source: str) -> None:
    declared = pipelines_of(source)
    assert declared.problems == ()
    (found,) = declared.pipelines
    assert (found.variable, found.page) == ("p", "x.md")


def test_a_pipeline_without_page_has_its_contract_in_the_file() -> None:
    source = IMPORT + (
        'TAKES = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}\n'
        'p = Pipeline("trial", "1.0", inputs=TAKES, outputs={"type": "object", "properties": {"all": TAKES}}, purpose="Try.",\n'
        '             timeout="2h", max_tokens=10, max_cost_usd=0.5, gates="required", include=["rules.json"])\n'
    )
    (found,) = pipelines_of(source).pipelines
    assert (found.line, found.gates, found.include, found.page) == (3, "required", ("rules.json",), None)
    contract = contract_of_arguments(found.given)
    assert (contract.worker_id, contract.version, contract.purpose) == ("trial", "1.0", "Try.")
    assert [field.name for field in contract.inputs] == ["n"]
    assert (contract.limits.run_timeout_seconds, contract.limits.max_tokens, str(contract.limits.max_cost_usd)) == (7200, 10, "0.5")
    assert contract_in(Graph(contract=json_of(contract), nodes=(), gives={})) == contract


def test_several_pipelines_of_a_file_are_told_in_order() -> None:
    found = pipelines_of(IMPORT + 'b = Pipeline("b.md")\na = Pipeline("a.md")\n').pipelines
    assert found == (DeclaredPipeline(variable="b", line=2, page="b.md"), DeclaredPipeline(variable="a", line=3, page="a.md"))


@pytest.mark.parametrize(
    "source", ["", "x = 1", "def Pipeline(x): ...\np = Pipeline('x.md')", "from other import Pipeline\np = Pipeline('x')"]
)
def test_a_file_without_our_pipeline_declares_none(source: str) -> None:
    assert pipelines_of(source) == pipelines_of("")


@pytest.mark.parametrize(
    "line, told",
    [
        ("p = Pipeline()", "must name its page, or its id and its version"),
        ("p = Pipeline(name())", "page_or_id= must be a literal, because the file is read and not run; it is `name()`."),
        ("p = Pipeline(f'{x}.md')", "must be a literal"),
        ("p = Pipeline(*['x.md'])", "takes its page, or its id and its version"),
        ("p = Pipeline('x.md', **{})", "does not know **="),
        ("p = Pipeline('x.md', page_or_id='y.md')", "each once"),
        ("p = Pipeline('x.md', timeout='1h')", "timeout= belongs to the page 'x.md', not to the file. Write it on the page."),
        ("p = Pipeline('x.md', gates='maybe')", "gates= is 'maybe'; it must be 'advised' or 'required'."),
        ("p = Pipeline('x.md', include='a')", "include= is 'a'; it must be a list of texts."),
        ("p = Pipeline('x')", "needs a version, a text, after its id"),
        ("p = Pipeline('x', '1')", "needs inputs=, the JSON Schema of its inputs."),
        ("p = Pipeline('x', '1', inputs={}, outputs=OUT)", "outputs= must be a literal"),
        ("p = Pipeline('x', '1', inputs={**{}}, outputs={})", "inputs= must be a literal"),
        ("Pipeline('x.md')", "has no name that the runner can find"),
        ("p = [Pipeline('x.md')]", "has no name that the runner can find"),
        ("def f(): p = Pipeline('x.md')", "has no name that the runner can find"),
        ("p = Pipeline('x.md'); p = Pipeline('y.md')", "p is a pipeline already, in line 2"),
        ("p = Pipeline('x' * 5)", "must be a literal"),
        ("p = (", "The file is not Python"),
    ],
)
def test_a_wrong_declaration_is_told_with_its_line(line: str, told: str) -> None:
    problems = pipelines_of(IMPORT + line).problems
    assert [problem.line for problem in problems if told in problem.message] == [2]


def test_a_name_that_is_assigned_twice_is_no_literal() -> None:
    (problem,) = pipelines_of(IMPORT + "PAGE = 'x.md'\nPAGE = 'y.md'\np = Pipeline(PAGE)").problems
    assert "must be a literal" in problem.message


def test_small_sources_with_large_literals_are_bounded() -> None:
    names = ", ".join(["A"] * 10_000)
    (problem,) = pipelines_of(IMPORT + f"A = {[1] * 10_000}\np = Pipeline('x', '1', inputs={{'a': [{names}]}}, outputs={{}})").problems
    assert "more than 262144 characters" in problem.message
    (deep,) = pipelines_of(IMPORT + "p = Pipeline(" + "[" * 100_000).problems
    assert "not Python" in deep.message


@pytest.mark.parametrize(
    "given, told",
    [
        ({"page_or_id": "no id"}, "is not a valid worker_id"),
        ({"version": ""}, "is not a valid version"),
        ({"inputs": {"type": "wrong"}}, "inputs= is not a JSON Schema"),
        ({"outputs": {"type": "array"}}, "outputs= must describe an object"),
        ({"inputs": {"x": b"bytes"}}, "inputs= is not a JSON Schema"),
        ({"timeout": 5}, "timeout= is 5"),
        ({"purpose": 5}, "purpose= is 5"),
        ({"max_tokens": "x"}, "max_tokens= is 'x'"),
    ],
)
def test_arguments_that_are_no_contract_are_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        contract_of_arguments({"page_or_id": "trial", "version": "1.0", "inputs": {}, "outputs": {}, **given})


def test_a_graph_whose_contract_is_none_is_refused() -> None:
    contract = {"worker_id": "a", "version": "1", "input_schema": {"type": 5}, "output_schema": {}}
    with pytest.raises(PipelineInvalid) as refused:
        contract_in(Graph(contract=contract, nodes=(), gives={}))
    assert refused.value.where == "contract"
