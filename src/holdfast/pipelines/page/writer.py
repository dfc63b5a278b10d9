"""Writes a graph as a pipeline.md. The writer reads its own text back: it raises PipelineInvalid if that fails, or if the graph that it
reads has another id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath

import msgspec

from holdfast.contract.page import DIAGRAM, PIPELINE_SPEC
from holdfast.model import codec
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Graph, MapNode
from holdfast.pipelines.graph.graph_json import graph_id
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.contract_text import sections, spec_lines
from holdfast.pipelines.page.field_writer import node_texts, word_text
from holdfast.pipelines.page.layout import Group, laid_out
from holdfast.pipelines.page.reader import read_pipeline
from holdfast.pipelines.page.template_text import template_doc


def page_of(graph: Graph, drawing: str = "", include: Sequence[str] = ()) -> str:
    """A graph as the text of a page. `drawing` is its picture as a text; empty: the page has no picture. `include` names the further files
    that its steps may read.

    Raises PipelineInvalid if the graph has something that cannot be written on a page.
    """
    text = "\n".join(_lines(graph, drawing, include))
    read = read_pipeline(text.encode())
    if read.graph is None:
        told = "; ".join(str(problem) for problem in read.problems[:3])
        raise PipelineInvalid(f"The pipeline {graph.pipeline_id} cannot be written as a page: {told}")
    if graph_id(msgspec.structs.replace(read.graph, steps=graph.steps)) != graph_id(graph):
        told = f"the graph of the page would differ in {_difference(graph, read.graph)}"
        raise PipelineInvalid(f"The pipeline {graph.pipeline_id} cannot be written as a page: {told}.")
    return text


def _lines(graph: Graph, drawing: str, include: Sequence[str]) -> Iterator[str]:
    contract = contract_in(graph)
    if contract.title:
        yield f"# {contract.title}\n"
    if contract.problem:
        yield f"Problem: {contract.problem}\n"
    if drawing:
        yield f"## {DIAGRAM}\n\n```text\n{drawing.rstrip()}\n```\n"
    yield f"## {PIPELINE_SPEC}\n\n```yaml"
    yield from spec_lines(contract)
    yield from _graph_lines(graph, include)
    yield "```"
    yield from (f"\n## {heading}\n\n{text}" for heading, text in sections(contract))
    yield ""


def _graph_lines(graph: Graph, include: Sequence[str]) -> Iterator[str]:
    maps = frozenset(node.name for node in graph.nodes if isinstance(node, MapNode))
    step_file = "" if graph.steps is None else PurePosixPath(graph.steps).name
    if graph.gates != "advised":
        yield f"gates: {graph.gates}"
    if include:
        yield laid_out(Group("[", [("", word_text(name)) for name in include], "]"), "include: ")
    yield "nodes:" if graph.nodes else "nodes: []"
    for node in graph.nodes:
        first = True
        for key, doc in node_texts(node, maps, step_file):
            yield laid_out(doc, f"  - {key}: " if first else f"    {key}: ", "    ")
            first = False
    yield laid_out(template_doc(graph.gives, maps), "gives: ")


def _difference(wanted: Graph, found: Graph) -> str:
    """Names the first part in which two graphs differ: a key of the contract, `gates`, a node, or else what the graph gives. The files of
    steps are not compared."""
    for key in sorted(wanted.contract.keys() | found.contract.keys()):
        if codec.dumps(wanted.contract.get(key)) != codec.dumps(found.contract.get(key)):
            return f"`{key}` of its contract"
    if wanted.gates != found.gates:
        return "`gates`"
    for one, other in zip_longest(wanted.nodes, found.nodes):
        named = one or other
        if one != other and named is not None:
            return f"the node `{named.name}`"
    return "what it gives"
