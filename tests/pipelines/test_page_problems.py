"""What is wrong with a pipeline.md is told with its section and line, in every rendering; hostile pages are bounded and named."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.contract.page_reader import read
from holdfast.contract.terms import ProblemLevel
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import GateNode, HumanNode
from holdfast.pipelines.graph.graph_json import graph_from, graph_text
from holdfast.pipelines.page.reader import MAX_PAGE_BYTES, PipelinePage, is_pipeline, read_pipeline
from tests import parts
from tests.pipelines.pipeline_pages import NOTICE, RENDERINGS, Rendering, flat, graph_of, problems_of, site
from tests.pipelines.templates import ref

every_rendering = pytest.mark.parametrize("rendered", RENDERINGS.values(), ids=RENDERINGS.keys())
MARK = "§"


def changed(before: str, after: str, page: str = NOTICE) -> str:
    """The page with a text in place of another. The mark shows the line that the problem must have."""
    assert page.count(before) == 1, before
    return page.replace(before, after)


def marked(page: str) -> tuple[str, int | None]:
    """A page without its mark, and the line on which the mark stood."""
    line = next((number for number, text in enumerate(page.split("\n"), 1) if MARK in text), None)
    return page.replace(MARK, ""), line


ODD = [
    # nodes and their keys
    ("    kind: map\n", "    kind: maps§\n", "unknown_kind", "`maps` is not a kind of a node. Did you mean `map`? The kinds are worker, "),
    ("    kind: map\n", "", "field_missing", "The node has no `kind`"),
    ("    over: inputs.topics\n", "", "field_missing", "There is no `over`, which a node of the kind `map` needs"),
    ("    at_most: 20\n", "    at_mots: 20§\n", "unknown_field", "`at_mots` is not a key of "),
    ("    at_most: 20\n", "    at_most: 20\n    at_most: 30§\n", "duplicate_field", "`at_most` is given a second time"),
    ("  - name: check\n", "  - name: drafts§\n", "duplicate_field", "Two nodes are named `drafts`; the other is on line"),
    ("  - name: check\n", "  - name: Check!§\n", "bad_value", "'Check!' is not a name of a node"),
    ("  - name: check\n", "  - name: inputs§\n", "bad_value", "'inputs' is reserved"),
    # values of a field
    ("at_most: 20", "at_most: many§", "bad_value", "`at_most`: `many` is not a whole number."),
    ("at_most: 20", "at_most: 0§", "bad_value", "at_most is 0; it must be at least 1"),
    ("tolerate: 20%", "tolerate: 200%§", "bad_value", "`tolerate`: `200%` is not a whole number"),
    ("within: 2d", "within: 2 days§", "bad_value", "`within`: `2 days` is not a duration. Write an integer above 0 and s, m, h or d"),
    ("timeout: 10m", "timeout: 10§", "bad_value", "`timeout`: `10` is not a duration"),
    ("max_cost_usd: 0.50", "max_cost_usd: much§", "bad_value", "`max_cost_usd`: `much` is not an amount"),
    ("max_cost_usd: 0.50", "max_cost_usd: NaN§", "bad_value", "NaN is not an allowed amount"),
    ("on_block: escalate", "on_block: retry§", "bad_value", "`on_block`: `retry` is not one of fail, skip, escalate."),
    ("access_denied: skip", "access_denied: skp§", "bad_value", "`skp` is not one of fail, skip, escalate. Did you mean `skip`?"),
    ("otherwise: large", "otherwise: null§", "bad_value", "To give no value, leave the key out"),
    ("otherwise: large", "otherwise: huge§", "bad_value", "'huge' is not one of the labels"),
    ("worker: post-worker\n", "worker: 'post-worker'§\n", "bad_value", "is in single quotes. Write a text in double quotes"),
    ("worker: post-worker\n", "worker: post worker§\n", "bad_value", "'post worker' is not the id of a worker"),
    ("question: Shall they stay up: yes or no?", "question: Stay up # or down?§", "bad_value", "not certain whether ` #` begins a comment"),
    ("approvers: [ann, research-leads]", "approvers: {a: b}§", "bad_value", "This must be a list"),
    ("fallback: [post-worker-small]", "fallback: [[a]]§", "bad_value", "This is not a text"),
    ("caps: {timeout: 10m,", "caps: {time: 10m,§", "unknown_field", "`time` is not a key of `caps`. Did you mean `timeout`?"),
    ("op: at_most, value: 10", "op: below, value: 10§", "bad_value", "`below` is not one of equals"),
    ("op: at_most, value: 10", "op: at_most, value: ten§", "bad_value", "`ten` is not a value here. Write a text in double quotes"),
    ("labels: [small, large]", "labels: [small, large§", "value_cut_off", "never ends: a closing bracket is missing"),
    # references and templates
    ("over: inputs.topics\n", "over: inputs.topics.each§\n", "bad_value", "For each element of a list, write [*]"),
    ("over: inputs.topics\n", "over: inputs..topics§\n", "bad_value", "is not understood from `..topics` on"),
    ("over: inputs.topics\n", "over: the topics§\n", "bad_value", "is not understood from ` topics` on"),
    ("over: inputs.topics\n", "over: Topics§\n", "bad_value", "`Topics` is neither a reference nor a value"),
    ("over: inputs.topics\n", "over: eval(inputs.topics)§\n", "bad_value", "`eval(…)` is unknown. There are const(…), concat(…)"),
    ("over: inputs.topics\n", "over: inputs.topics.length.more§\n", "bad_value", "`.length` and `.default(…)` end a reference"),
    ("over: inputs.topics\n", "over: inputs.topics.default()§\n", "bad_value", ".default(…) must have one value, and 0 are given"),
    ("over: inputs.topics\n", "over: inputs.topics.default(item)§\n", "bad_value", "`item` is not a value here"),
    ("over: inputs.topics\n", "over: item§\n", "bad_value", "`item` is known only in the inputs of a map"),
    ("over: inputs.topics\n", 'over: inputs["*"]§\n', "bad_value", 'A field of the name "*" cannot be reached'),
    ("over: inputs.topics\n", "over: [1, 2]]§\n", "bad_value", "`]` comes after its end"),
    ("over: inputs.topics\n", 'over: "topics§\n', "bad_value", "a text in double quotes is not closed on its line"),
    ("over: inputs.topics\n", "over: [inputs.topics[0 1]]§\n", "bad_value", "is neither an index nor a value"),
    ("over: inputs.topics\n", "over: {a: 1, a: 2}§\n", "duplicate_field", "the key `a` is twice in one object"),
    ("over: inputs.topics\n", "over: {$from: inputs}§\n", "bad_value", "there is no `key: value` at `$from"),
    ("over: inputs.topics\n", 'over: {"$from": inputs}§\n', "bad_value", "begins with $. Such a key is allowed only inside const(…)"),
    ("over: inputs.topics\n", "over: const(1, 2)§\n", "bad_value", "const(…) must have one value, and 2 are given"),
    ("over: inputs.topics\n", 'over: text("{} {}", 1)§\n', "bad_value", "The text has 2 places {} and 1 values"),
    ("over: inputs.topics\n", "over: text(1)§\n", "bad_value", "text(…) must begin with a text in double quotes"),
    ("over: inputs.topics\n", "over: 1e999§\n", "bad_value", "The number 1e999 is too large"),
    ("over: inputs.topics\n", 'over: "\\x"§\n', "bad_value", "is not a JSON string. Write it in double quotes"),
    # the spec
    ("gates: required", "gates: always§", "bad_value", "`gates` is `always`. Write advised or required"),
    ("pipeline_id: notice-board", "worker_id: notice-board§", "unknown_field", "Did you mean `pipeline_id`?"),
    ("pipeline_id: notice-board", "pipeline_id: notice board§", "bad_value", "`pipeline_id` is `notice board`"),
    ("version: 1.10\n", "", "field_missing", "There is no `version`"),
    ("gives: {lines: post.outputs.lines.default([])}\n", "", "field_missing", "There is no `gives`"),
    ("gives: {lines: post.outputs.lines.default([])}\n", "gives:§\n", "field_missing", "`gives` has no value"),
    ("## Pipeline spec", "## Worker spec\n\n```yaml\nworker_id: a\n```\n\n## Pipeline spec§", "duplicate_section", "Keep one of the two"),
    ("gates: required", "gate: required§", "unknown_field", "`gate` is not a key of a Pipeline spec. Did you mean `gates`?"),
    ("gates: required", "gates: required\ninclude: {a: 1}§", "bad_value", "This is not a text"),
]  # fmt: skip


@pytest.mark.parametrize("before, after, code, told", ODD)
def test_each_mistake_is_told_with_its_section_and_its_line(before: str, after: str, code: str, told: str) -> None:
    page, line = marked(changed(before, after))
    reading = read_pipeline(page.encode())
    found = [problem for problem in reading.problems if problem.code == code and told in problem.message]
    assert found, [str(problem) for problem in reading.problems]
    assert {problem.section for problem in found} == {"Pipeline spec"}
    assert line is None or line in [problem.line for problem in found]
    assert reading.graph is None


@pytest.mark.parametrize(
    "before, after, code, told",
    [
        ("    over: inputs.topics\n", "      over: inputs.topics§\n", "indentation", "indented more than the line that it could belong to"),
        ("    over: inputs.topics\n", "   over: inputs.topics§\n", "indentation", "indented"),
        ("    question: Shall they stay up: yes or no?\n", "    question: >\n      Up?§\n", "indentation", "on one line, in double quotes"),
        ("    over: inputs.topics\n", "    over\n§", "spec_line", "`over` is neither `key: value` nor an item of a list"),
        ("  - name: check\n", "  -§\n  - name: check\n", "spec_line", "There is nothing after this bullet"),
        ("  - name: check\n", "  - check§\n  - name: check\n", "spec_line", "A node has keys and values"),
    ],
)
def test_indentation_is_never_guessed(before: str, after: str, code: str, told: str) -> None:
    page, line = marked(changed(before, after))
    found = [problem for problem in problems_of(page) if problem.code == code and told in problem.message]
    assert found, [str(problem) for problem in problems_of(page)]
    assert (read_pipeline(page.encode()).graph, line is None or abs(found[0].line - line) <= 1) == (None, True)


def test_nested_lines_say_the_same_as_brackets_and_a_page_without_indentation_wants_brackets() -> None:
    brackets = "    undo: {worker: unpost-worker, inputs: {line: post.outputs.lines[0]}}\n"
    nested = "    undo:\n      worker: unpost-worker  # it\n      inputs:\n        line: post.outputs.lines[0]\n"
    rules = 'rules: [{path: ".texts[*]", op: length_at_most, value: 30, code: too_long, message: "It is too long, #really."}]'
    listed = rules.replace("[{", "\n    - ").replace(", #", "§").replace(", ", "\n      ").replace("§", ", #").replace("}]", "")
    page = changed(rules, listed, changed(brackets, nested))
    page = changed("labels: [small, large]", "labels:\n      - small\n      - large", page)
    assert graph_of(page) == graph_of(site(page)) == graph_of(NOTICE)
    told = [problem.line for problem in problems_of(flat(page)) if "The page has lost its indentation, so" in problem.message]
    assert [flat(page).split("\n")[line - 1] for line in told][:2] == ["labels:", "rules:"]


@every_rendering
def test_windows_line_ends_tabs_a_byte_order_mark_and_comments_change_nothing(rendered: Rendering) -> None:
    page = changed("  - name: check\n", "\n  # the rule of the town\n  - name: check   # the second\n")
    odd = "\ufeff" + rendered(page).replace("    at_once", "\tat_once").replace("\n", "\r\n")
    assert graph_of(odd) == graph_of(NOTICE)


@every_rendering
def test_a_word_alone_is_a_list_of_one(rendered: Rendering) -> None:
    page = changed("fallback: [post-worker-small]", "fallback: post-worker-small", changed("after: [size:small]", "after: size:small"))
    assert graph_of(rendered(page)) == graph_of(NOTICE)


# --- the traps of worker-protocol.md, by their numbers; 2, 3, 5, 6, 9, 10 and 11 are read by the reader of worker.md pages -------------


@every_rendering
def test_the_contract_of_a_page_has_what_a_worker_md_has(rendered: Rendering) -> None:
    """1: a version is text. 2, 3: optional and enum. 4: prose. 5: a rate. 6: retries. 9: optional outputs. 10: codes in prose."""
    contract = contract_in(graph_of(rendered(NOTICE)))
    assert (contract.version, contract.purpose) == ("1.10", 'Pin notices: short ones, #1 first, and say "why".')
    assert [(field.name, field.optional, field.enum) for field in contract.inputs] == [
        ("topics", False, ()),
        ("mood", True, ("glad", "so so")),
    ]
    assert contract.rate_limit is not None
    assert (contract.rate_limit.count, contract.retries.max_attempts) == (10, 2)
    assert contract.output_schema["required"] == ["lines"]
    assert contract.errors["board_closed"].retryable is True
    assert contract.title == "Notice board"


@every_rendering
def test_4_the_texts_of_nodes_may_hold_a_colon_a_quote_and_in_quotes_a_hash_sign(rendered: Rendering) -> None:
    check, keep = (graph_of(rendered(NOTICE)).node(name) for name in ("check", "keep"))
    assert isinstance(check, GateNode)
    assert isinstance(keep, HumanNode)
    assert (check.rules[0].message, keep.question) == ("It is too long, #really.", "Shall they stay up: yes or no?")


@every_rendering
def test_8_a_page_that_is_cut_off_is_told_where(rendered: Rendering) -> None:
    page = rendered(NOTICE)
    cut = page[: page.index("undo: {worker") + 20]
    told = {problem.code for problem in problems_of(cut) if problem.level is ProblemLevel.ERROR}
    assert told >= {"value_cut_off", "page_cut_off", "field_missing"}
    in_json = page[: page.index('"enum"')]
    assert "json_cut_off" in {problem.code for problem in problems_of(in_json)}


def test_8_spec_and_schema_that_disagree_are_told_under_the_name_of_the_section() -> None:
    (problem,) = problems_of(changed("  - topics: array", "  - topics: string"))
    assert (problem.code, problem.section) == ("spec_and_schema_differ", "Input schema")
    assert "Pipeline spec, line" in problem.message
    assert "Worker spec" not in problem.message


# --- what a page is


def test_a_page_is_a_pipeline_by_its_heading_and_not_by_a_block_that_shows_one() -> None:
    assert all(is_pipeline(rendered(NOTICE).encode()) for rendered in RENDERINGS.values())
    assert not is_pipeline(f"# How to\n\n````markdown\n{NOTICE}````\n".encode())
    assert not is_pipeline(b"# A\n\n## Worker spec\n")
    (problem,) = [each for each in read(NOTICE).errors if each.code == "section_missing" and each.section == "Worker spec"]
    assert "so it is a pipeline of its own" in problem.message


def test_the_word_pipeline_id_inside_a_value_stays() -> None:
    page = read_pipeline(
        NOTICE.replace('purpose: Pin notices: short ones, #1 first, and say "why".', "purpose: Say the pipeline_id to all").encode()
    )
    assert page.contract is not None
    assert (page.contract.worker_id, page.contract.purpose) == ("notice-board", "Say the pipeline_id to all")


def test_the_definition_of_a_coding_agent_is_recognised() -> None:
    agent = "---\nname: reviewer\ndescription: Reads diffs\ntools: Read, Grep\n---\n\nYou review code.\n"
    first = read(agent).errors[0]
    assert (first.code, first.line, "definition of a coding agent" in first.message) == ("agent_definition", 1, True)
    assert "agent_definition" not in {problem.code for problem in read("---\ntitle: A\n---\n\ntext\n").errors}
    assert graph_of(f"---\nname: a\ndescription: b\n---\n\n{NOTICE}").pipeline_id == "notice-board"


# --- hostile pages


def fair(page: bytes) -> PipelinePage:
    """What a page gave, after what must hold of any answer."""
    found = read_pipeline(page)
    errors = [problem for problem in found.problems if problem.level is ProblemLevel.ERROR]
    assert (found.graph is None) == bool(errors)
    text = page.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    last = text.count("\n") + 1
    assert all(1 <= problem.line <= last and problem.message and problem.code for problem in found.problems)
    assert all(len(problem.message) < 1000 and problem.message.isprintable() for problem in found.problems)
    if found.graph is not None:
        assert graph_from(graph_text(found.graph)) == found.graph
    return found


HEAD = "# A\n\n## Pipeline spec\n\n```yaml\npipeline_id: a\nversion: 1\n"
HUGE = {
    "a megabyte of one line": (HEAD + "purpose: " + "x" * MAX_PAGE_BYTES, "page_too_large"),
    "a million nodes": (HEAD + "nodes:\n" + "- name: a\n" * 1_000_000, "page_too_large"),
    "too many lines": (HEAD + "nodes:\n" + "-\n" * 100_000, "page_too_large"),
    "too many nodes": (HEAD + "nodes:\n" + "  - {name: a, kind: wait, duration: 1s}\n" * 2_000, "too_many_nodes"),
    "deep calls": (HEAD + "gives: " + "concat(" * 20_000 + ")" * 20_000 + "\n```\n", "too_deep"),
    "deep brackets": (HEAD + "gives: " + "[" * 500_000 + "]" * 500_000 + "\n```\n", "too_deep"),
    "deep lines": (HEAD + "gives:\n" + "".join(f"{' ' * at}a:\n" for at in range(1, 1_000)) + "\n```\n", "too_deep"),
    "deep bullets": (HEAD + "constraints:\n  timeout_seconds: 5\ngives:\n  " + "- " * 100_000 + "a\n```\n", "too_deep"),
    "open brackets": (HEAD + "gives: [" + "{a: [\n" * 5_000 + "\n```\n", "value_cut_off"),
    "quotes": (HEAD + "gives: [" + '"a" ' * 200_000 + "]\n```\n", "bad_value"),
    "one long reference": (HEAD + "nodes: []\ngives: inputs" + ".a" * 400_000 + "\n```\n", "bad_value"),
    "a large constant": (HEAD + 'nodes: []\ngives: const("' + "x" * 900_000 + '")\n```\n', "bad_value"),
    "unknown keys": (HEAD + "".join(f"key{at}: 1\n" for at in range(40_000)) + "```\n", "unknown_field"),
    "unknown fields": (
        HEAD + "nodes:\n  - name: a\n    kind: wait\n" + "".join(f"    key{at}: 1\n" for at in range(40_000)) + "```\n",
        "unknown_field",
    ),
}


QUICK = ("too_many_nodes", "too_deep", "value_cut_off")


@pytest.mark.parametrize("name", parts.one_of_each(HUGE, lambda name: HUGE[name][1] if HUGE[name][1] in QUICK else ""))
def test_a_huge_page_is_refused_with_its_reason_in_little_time(name: str) -> None:
    page, code = HUGE[name]
    began = process_time()
    assert code in {problem.code for problem in fair(page.encode()).problems}
    assert is_pipeline(page.encode())
    assert process_time() - began < 20  # a page that costs more than its length would take hours


@pytest.mark.parametrize("rendered", [str, pytest.param(site, marks=pytest.mark.long), pytest.param(flat, marks=pytest.mark.long)])
def test_a_page_cut_off_anywhere_is_answered(rendered: Rendering) -> None:
    page = rendered(NOTICE).encode()
    random = Random(0)
    for end in random.sample(range(len(page)), 40):
        fair(page[:end])


@settings(max_examples=parts.examples(150), deadline=None)
@given(st.text(max_size=60), st.integers(0, len(NOTICE)), st.sampled_from([str, site, flat]))
@example("\x00", 900, str)
@example("{", NOTICE.index("over:"), flat)
def test_any_text_put_into_a_page_is_answered(text: str, at: int, rendered: Rendering) -> None:
    page = rendered(NOTICE)
    fair((page[:at] + text + page[at:]).encode())


_WORDS = ["name", "a", "inputs", "kind: wait", "const", "nodes:", "gives:", "- "]
_PIECES = st.sampled_from([*_WORDS, *':{}[]()"#,.*', " ", "  ", "\n", "\t"])


@settings(max_examples=parts.examples(150), deadline=None)
@given(st.lists(_PIECES, max_size=40))
def test_any_spec_is_answered(pieces: list[str]) -> None:
    fair(f"{HEAD}{''.join(pieces)}\n```\n".encode())


def test_a_name_that_no_node_has_is_left_to_the_check_of_the_whole() -> None:
    graph = graph_of(changed("over: inputs.topics\n", "over: unknown.outputs\n"))
    assert graph.node("drafts").over == ref("unknown", "outputs")  # type: ignore[union-attr]
