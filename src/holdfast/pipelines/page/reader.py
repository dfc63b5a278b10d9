"""Turns a pipeline.md (as Markdown, or as text copied from a rendered page) into a graph, or into a list of its problems. The reader
never raises an error.

The page has the sections of a worker.md, with a Pipeline spec in place of the Worker spec. The reader of worker.md pages reads the
contract. This module reads the keys of the graph: `nodes`, `gives`, `gates` and `include`. The page is data: no code of it runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.contract.notes import PageNotes, few_guesses, shown
from holdfast.contract.page import PIPELINE_SPEC, SPEC, Fence, Page, PageLine, Section, mentions_pipeline, parted
from holdfast.contract.page_reader import read_parts, text_of
from holdfast.contract.spec import OWNER, TOP
from holdfast.contract.terms import Contract, Problem
from holdfast.pipelines.graph.bounds import MAX_LISTED, MAX_NODES, check_template
from holdfast.pipelines.graph.contract import json_of
from holdfast.pipelines.graph.graph import GIVES, AnyNode, Graph, MapNode
from holdfast.pipelines.graph.graph_json import graph_from, graph_text
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.blocks import SpecParts, parts_of, rows_of, tree_of
from holdfast.pipelines.page.field_reader import FieldReader, StepFunction, word
from holdfast.pipelines.page.node_fields import KIND, NODE_KEYS
from holdfast.pipelines.page.trees import Keyed, Listed, PageUnreadable, Scalar, Tree, inline

MAX_PAGE_BYTES: Final = 1024 * 1024
MAX_PAGE_LINES: Final = 50_000
GRAPH_KEYS: Final = ("nodes", "gives", "gates", "include")
MAP: Final = str(MapNode.__struct_config__.tag)
_GATES: Final = ("advised", "required")
_CALLED: Final = {SPEC: PIPELINE_SPEC, "worker_id": "pipeline_id", "worker.md": "pipeline.md", "the worker is for": "the pipeline is for"}
"""Words in the problems of the worker.md reader, and the words that a pipeline.md uses instead."""
_OTHER_KEYS: Final = tuple("pipeline_id" if key == "worker_id" else key for key in (*TOP, *OWNER))
_ID: Final = re.compile(r"^([ \t]*[\"'`]?)pipeline_id\b")


class PipelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a page: a graph if there are no errors, and the problems (errors and warnings) in the order of the page."""

    graph: Graph | None = None
    """The graph; None if the page has errors. It does not name the package of its steps: build_page.py makes that package from the files
    beside the page."""
    contract: Contract | None = None
    """The page's contract; None if the page has errors."""
    lines: dict[str, int] = {}
    """The line of each node that could be read, by its name, and the line of what the pipeline gives (under the name GIVES)."""
    steps: tuple[StepFunction, ...] = ()
    include: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def is_pipeline(data: bytes) -> bool:
    """Whether a page is a pipeline: it has the heading `Pipeline spec`. A page that is too large to be read is a pipeline if this heading
    is in its first MAX_PAGE_BYTES bytes."""
    if not mentions_pipeline(data[:MAX_PAGE_BYTES]):
        return False
    if _too_large(data) is not None:
        return True
    notes = PageNotes()
    with few_guesses():
        return parted(text_of(data, notes), notes).section(PIPELINE_SPEC) is not None


def read_pipeline(data: bytes) -> PipelinePage:
    """Read a pipeline.md, as Markdown or as text copied from a rendered page. Never raises: the result has the problems."""
    notes = PageNotes()
    if (told := _too_large(data)) is not None:
        notes.error("page_too_large", "", 1, told)
        return PipelinePage(problems=notes.problems())
    with few_guesses():
        page = parted(text_of(data, notes), notes)
        section = page.section(PIPELINE_SPEC)
        if section is None:
            notes.error("section_missing", PIPELINE_SPEC, 1, f"There is no section `{PIPELINE_SPEC}`.")
            return PipelinePage(problems=notes.problems())
        return _PipelineReader(page, section, notes).read(hashlib.sha256(data).hexdigest())


def _too_large(data: bytes) -> str | None:
    if len(data) > MAX_PAGE_BYTES:
        return f"The page has more than {MAX_PAGE_BYTES} bytes, which is the most that a page may have."
    if data.count(b"\n") + data.count(b"\r") > MAX_PAGE_LINES:
        return f"The page has more than {MAX_PAGE_LINES} lines, which is the most that a page may have."
    return None


class _Nodes(NamedTuple):
    nodes: list[AnyNode]
    lines: dict[str, int]


class _PipelineReader:
    def __init__(self, page: Page, section: Section, notes: PageNotes) -> None:
        self._page = page
        self._section = section
        self._notes = notes
        rows = rows_of(section.block("yaml", "yml", ""), notes)
        self._parts: SpecParts = parts_of(rows, GRAPH_KEYS, _OTHER_KEYS, NODE_KEYS, notes)

    def read(self, sha256: str) -> PipelinePage:
        if (other := self._page.section(SPEC)) is not None:
            told = f"The page has a section for a worker (line {other.line}) and one for a pipeline. Keep one of the two."
            self._notes.error("duplicate_section", PIPELINE_SPEC, self._section.line, told)
        with self._notes.calling(_CALLED):
            contract = read_parts(self._contract_page(), self._notes, sha256).contract
        trees = {key: tree_of(rows, self._notes, flat=self._parts.flat) for key, rows in self._parts.graph.items()}
        items = self._items(trees.get("nodes"))
        reader = FieldReader(_maps_in(items), self._notes)
        nodes, lines = self._nodes(items, reader)
        gives = self._gives(trees.get("gives"), reader)
        gates, include = self._gates(trees.get("gates")), self._include(trees.get("include"))
        self._step_files(reader.steps)
        if "gives" in self._parts.graph:
            lines[GIVES] = self._parts.graph["gives"][0].line
        graph = None
        if contract is not None and not self._notes.failed:
            graph = self._graph(Graph(contract=json_of(contract), nodes=tuple(nodes), gives=gives, gates=gates))
        return PipelinePage(
            graph=graph,
            contract=None if self._notes.failed else contract,
            lines=lines,
            steps=tuple(reader.steps),
            include=include,
            problems=self._notes.problems(),
        )

    def _contract_page(self) -> Page:
        """The page rewritten as a worker.md: its spec is without the keys of the graph, and `pipeline_id` is called `worker_id`."""
        lines = tuple(PageLine(line.number, _ID.sub(r"\1worker_id", line.text, count=1)) for line in self._parts.contract)
        fences = tuple(Fence(fence.line, "yaml", lines, fence.closed) for fence in self._section.fences[:1])
        spec = Section(SPEC, self._section.line, () if fences else lines, fences)
        sections = {name: section for name, section in self._page.sections.items() if name != PIPELINE_SPEC}
        last = SPEC if self._page.last == PIPELINE_SPEC else self._page.last
        return Page(self._page.title, self._page.problem, {**sections, SPEC: spec}, last)

    def _items(self, tree: Tree | None) -> list[Tree]:
        """The nodes as trees. If `nodes` is missing, is not a list, or has too many nodes, the result is empty, and a problem is noted."""
        if tree is None:
            if "nodes" not in self._parts.graph:
                self._missing("nodes", "Write `nodes:`, and below it `- name: …` with `kind: …` for each node.")
            return []
        found = self._inlined(tree)
        if found is None:
            return []
        if not isinstance(found, Listed):
            self._notes.error("spec_line", PIPELINE_SPEC, tree.line, "`nodes` must be a list. Write `- name: …` for each node below it.")
            return []
        if len(found.items) > MAX_NODES:
            told = f"The pipeline has {len(found.items)} nodes; at most {MAX_NODES} are allowed."
            self._notes.error("too_many_nodes", PIPELINE_SPEC, found.items[MAX_NODES].line, told)
            return []
        return found.items

    def _nodes(self, items: Sequence[Tree], reader: FieldReader) -> _Nodes:
        nodes: list[AnyNode] = []
        lines: dict[str, int] = {}
        for item in items:
            found = self._inlined(item)
            if not isinstance(found, Keyed):
                if found is not None:
                    self._notes.error(
                        "spec_line", PIPELINE_SPEC, item.line, "A node has keys and values. Write `- name: …`, and its `kind` below it."
                    )
                continue
            node = reader.node(found)
            if node is None:
                continue
            if node.name in lines:
                told = f"Two nodes are named `{node.name}`; the other is on line {lines[node.name]}."
                self._notes.error("duplicate_field", PIPELINE_SPEC, found.line, told)
            lines.setdefault(node.name, found.line)
            nodes.append(node)
        return _Nodes(nodes, lines)

    def _gives(self, tree: Tree | None, reader: FieldReader) -> Any:
        if tree is None:
            if "gives" not in self._parts.graph:
                self._missing("gives", "Write what the pipeline gives: `gives: {report: report.outputs}`.")
            return None
        gives = reader.gives(tree)
        try:
            check_template(gives, "gives")
        except PipelineInvalid as wrong:
            self._notes.error("bad_value", PIPELINE_SPEC, tree.line, str(wrong))
        return gives

    def _gates(self, tree: Tree | None) -> Any:
        if tree is None:
            return _GATES[0]
        try:
            gates = word(tree)
        except PageUnreadable as wrong:
            self._unreadable(wrong)
            return _GATES[0]
        if gates not in _GATES:
            told = f"`gates` is `{shown(gates)}`. Write {' or '.join(_GATES)}."
            self._notes.error("bad_value", PIPELINE_SPEC, tree.line, told)
        return gates

    def _include(self, tree: Tree | None) -> tuple[str, ...]:
        if tree is None:
            return ()
        try:
            found = inline(tree) if isinstance(tree, Scalar) else tree
            items = found.items if isinstance(found, Listed) else [found]
            if len(items) > MAX_LISTED:
                raise PageUnreadable(f"`include` has {len(items)} files; at most {MAX_LISTED} are allowed.", tree.line)
            return tuple(map(word, items))
        except PageUnreadable as wrong:
            self._unreadable(wrong)
            return ()

    def _step_files(self, steps: Sequence[StepFunction]) -> None:
        for step in steps[1:]:
            if step.file != steps[0].file:
                told = f"One step calls {shown(steps[0].file)}, and this step calls {shown(step.file)}. All steps must use the same file."
                self._notes.error("bad_value", PIPELINE_SPEC, step.line, told)

    def _graph(self, graph: Graph) -> Graph | None:
        """The graph, written as JSON and read again with all checks for graphs from outside. None if it breaks a bound; that is noted as a
        problem."""
        try:
            return graph_from(graph_text(graph))
        except PipelineInvalid as wrong:
            self._notes.error("bad_value", PIPELINE_SPEC, self._section.line, str(wrong))
            return None

    def _inlined(self, tree: Tree) -> Tree | None:
        try:
            return inline(tree) if isinstance(tree, Scalar) else tree
        except PageUnreadable as wrong:
            self._unreadable(wrong)
            return None

    def _unreadable(self, wrong: PageUnreadable) -> None:
        self._notes.error(wrong.code, PIPELINE_SPEC, wrong.line, wrong.what)

    def _missing(self, key: str, cure: str) -> None:
        self._notes.error("field_missing", PIPELINE_SPEC, self._section.line, f"There is no `{key}`. {cure}")


def _maps_in(items: Sequence[Tree]) -> frozenset[str]:
    """The names of the nodes that are maps. Nodes that cannot be read are left out."""
    found = set()
    for item in items:
        with contextlib.suppress(PageUnreadable):  # the problem is noted later, when the node is read
            node = inline(item) if isinstance(item, Scalar) else item
            if isinstance(node, Keyed) and {"name", KIND} <= node.entries.keys() and word(node.entries[KIND]) == MAP:
                found.add(word(node.entries["name"]))
    return frozenset(found)
