"""Every problem of a page is told at once, with its section and line, and with what to do."""

from __future__ import annotations

import pytest

from holdfast.contract.notes import MAX_PROBLEMS, PageNotes
from holdfast.contract.page_reader import MAX_PAGE_BYTES, contract_of, read
from holdfast.contract.refusals import ContractInvalid
from holdfast.contract.terms import Problem, ProblemLevel
from tests.unit.worker_pages import AWS_LAMBDA, RENDERINGS, WEB_SCRAPE, Rendering, codes, contract, flat, markdown, problems

every_rendering = pytest.mark.parametrize("rendered", RENDERINGS.values(), ids=RENDERINGS.keys())

# (what stands on the page, what stands there instead, level, code, section, the text of the line that is named, part of the message)
CHANGED = [
    ("worker_id: web-scrape-worker\n", "", "error", "field_missing", "Worker spec", "", "no `worker_id`"),
    ("worker_id: web-scrape-worker", "worker_id: web scrape", "error", "bad_value", "Worker spec", "worker_id", "`web scrape`"),
    ("version: 1.0\n", "", "error", "field_missing", "Worker spec", "", "no `version`"),
    ("version: 1.0", "version: 1 0", "error", "bad_value", "Worker spec", "version", "`1 0`"),
    ("version: 1.0", "version:", "error", "field_missing", "Worker spec", "version", "no `version`"),
    ("worker_id: web", "worker_idd: web", "warning", "unknown_field", "Worker spec", "worker_idd", "Did you mean `worker_id`?"),
    ("retries:\n  max_attempts: 2", "retries:\n  max_atempts: 2", "warning", "unknown_field", "Worker spec",
     "max_atempts", "`max_attempts`?"),
    ('"max_tokens": 1500', '"max_token": 1500', "warning", "unknown_field", "Constraints", '"max_token"', "Did you mean `max_tokens`?"),
    ("timeout_seconds: 60", "timeout_seconds: 60s", "error", "bad_value", "Worker spec", "timeout_seconds", "such as 60"),
    ('"timeout_seconds": 60', '"timeout_seconds": "60"', "error", "bad_value", "Constraints", '"timeout_seconds"', "without unit"),
    ('"timeout_seconds": 60', '"timeout_seconds": 0', "error", "bad_value", "Constraints", '"timeout_seconds"', "above 0"),
    ('"timeout_seconds": 60', '"timeout_seconds": true', "error", "bad_value", "Constraints", '"timeout_seconds"', "without unit"),
    ('"max_tokens": 1500', '"max_tokens": 1.5', "error", "bad_value", "Constraints", '"max_tokens"', "whole number"),
    ('"max_tokens": 1500', '"max_tokens": -1', "error", "bad_value", "Constraints", '"max_tokens"', "whole number"),
    ('"max_attempts": 2', '"max_attempts": 0', "error", "bad_value", "Constraints", '"max_attempts"', "from 1 to"),
    ('"backoff": "exponential"', '"backoff": "expo"', "error", "bad_value", "Constraints", '"backoff"', "exponential, linear, fixed, none"),
    ('"max_tokens": 1500', '"max_tokens": 1600', "error", "spec_and_constraints_differ", "Constraints",
     '"max_tokens"', "says 1500 (Worker spec"),
    ('    "parse_html"\n', '    "parse_xml"\n', "error", "spec_and_constraints_differ", "Constraints", '"tools_allowed"', "parse_html"),
    ("tools_allowed: [fetch_url, parse_html]", "tools_allowed: fetch_url", "error", "bad_value",
     "Worker spec", "tools_allowed", "a list of names"),
    ("tools_allowed: [fetch_url, parse_html]", "tools_allowed: [fetch url]", "error", "bad_value",
     "Worker spec", "tools_allowed", "`fetch url`"),
    ("  - url: string", "  - url: object", "error", "spec_and_schema_differ", "Input schema", '"url"',
     "spec says `object`, the schema `string`"),
    ("  - url: string", "  - uri: string", "error", "spec_and_schema_differ", "Input schema", '"url"',
     "schema names `url`, the spec does not"),
    ("  - url: string", "  - uri: string", "error", "spec_and_schema_differ", "Input schema", '"properties"', "spec names `uri`"),
    ("string (optional)", "string", "error", "spec_and_schema_differ", "Input schema", '"required"', "in the spec it is required"),
    ("  - url: string", "  - url: string (optional)", "error", "spec_and_schema_differ", "Input schema",
     '"required"', "in the schema it is required"),
    ("  - url: string", "  - url: enum(a, b)", "error", "spec_and_schema_differ", "Input schema", '"url"',
     "the values a, b, the schema none"),
    ("  - url: string", "  - url: str", "warning", "unknown_type", "Worker spec", "url: str", "Did you mean `string`?"),
    ("  - url: string", "  - url: enum(a, b", "error", "unknown_type", "Worker spec", "url: enum", "close the bracket"),
    ("  - url: string", "  - url", "error", "spec_line", "Worker spec", "- url", "`- name: type`"),
    ("  - data: object", "  - data: object\n  - data: object", "error", "duplicate_field", "Worker spec", "data: object", "Keep one"),
    ("version: 1.0", "version: 1.0\nversion: 1.1", "error", "duplicate_field", "Worker spec", "version: 1.1", "first is on line"),
    ("version: 1.0", "version 1.0", "error", "spec_line", "Worker spec", "version 1.0", "neither `key: value`"),
    ('      "type": "string"\n    },\n    "extraction', '      "type": "sting"\n    },\n    "extraction',
     "error", "schema_invalid", "Input schema",
     '"sting"', "not a valid schema of draft 2020-12 (at /properties/url/type)"),
    ('"additionalProperties": false', '"additionalPropertys": false', "warning", "unknown_keyword", "Input schema", '"additionalPropertys"',
     "Did you mean `additionalProperties`?"),
    ('      "type": "string"\n    },\n    "extr',
     '      "type": "string", "format": "emial"\n    },\n    "extr', "warning", "unknown_format",
     "Input schema", '"emial"', "Did you mean `email`?"),
    ('    "extraction_spec": {\n      "type": "object"',
     '    "extraction_spec": {\n      "$ref": "https://x.example/s"', "error", "schema_invalid",
     "Input schema", '"$ref"', "leads out of the page (at /properties/extraction_spec/$ref)"),
    ('    "extraction_spec": {\n      "type": "object"',
     '    "extraction_spec": {\n      "$ref": "#/$defs/none"', "error", "schema_invalid",
     "Input schema", '"$ref"', "Pointer '/$defs/none' does not exist"),
    ('"type": "object",\n  "additionalProperties": false', '"type": "array"', "error", "schema_invalid",
     "Input schema", '"array"', "describe an object"),
    ("draft/2020-12/schema", "draft/2019-09/schema", "error", "schema_draft", "Input schema", "2019-09", "draft 2020-12"),
    ('  "required": [\n    "url",', '  "required": [\n    "url",,', "error", "json_invalid", "Input schema", '"url",,', "not JSON"),
    ('    "extraction_spec"\n  ]', '    "extraction_spec",\n  ]', "error", "json_invalid", "Input schema", "]", "Remove the comma"),
    ('"url": {', "'url': {", "error", "json_invalid", "Input schema", "'url'", 'Write strings with "'),
    ('"max_tokens": 1500', '"max_tokens": 1500, "max_tokens": 2', "error", "json_duplicate_key",
     "Constraints", '"max_tokens"', "is there twice"),
    ('"max_tokens": 1500', '"max_tokens": NaN', "error", "json_invalid", "Constraints", "{", "NaN is not a JSON number"),
    ('"max_tokens": 1500', '"max_tokens": 1e999', "error", "json_invalid", "Constraints", "{", "too large"),
    ('"max_tokens": 1500', '"max_tokens": ' + "9" * 5000, "error", "json_invalid", "Constraints", "{", "too large"),
    ('"max_tokens": 1500', '"x": "\\ud800"', "error", "json_invalid", "Constraints", "{", "surrogate"),
    ('"max_tokens": 1500', '"max_tokens": 1500, "egress": ["https://a.example/"]', "error", "bad_value",
     "Constraints", '"egress"', "no scheme"),
    ('"max_tokens": 1500', '"approvals_required": ["pay"], "max_tokens": 1500', "warning", "unknown_tool",
     "Constraints", '"approvals_required"',
     "does not allow"),
    ("error_code=fetch_timeout (retryable", "error_code=fetch_timeout (non-retryable", "warning",
     "error_code_differs", "Failure modes & handling",
     "fetch_timeout", "whatever the page says"),
    ("error_code=fetch_timeout (retryable with backoff)", "error_code=slow", "warning", "retry_rule_missing",
     "Failure modes & handling", "=slow",
     "retryable=true"),
]  # fmt: skip


@every_rendering
@pytest.mark.parametrize("old, new, level, code, section, line, told", CHANGED)
def test_a_problem_names_its_section_its_line_and_what_to_do(
    rendered: Rendering, old: str, new: str, level: str, code: str, section: str, line: str, told: str
) -> None:
    assert old in WEB_SCRAPE
    page = rendered(WEB_SCRAPE.replace(old, new, 1))
    found = [problem for problem in problems(page) if problem.code == code and told in problem.message]
    assert len(found) == 1, [str(problem) for problem in problems(page)]
    assert (found[0].level.value, found[0].section) == (level, section)
    assert line in page.split("\n")[found[0].line - 1]
    assert (read(page).contract is None) >= (level == "error")


def test_all_problems_are_told_at_once_in_the_order_of_the_page() -> None:
    page = (
        WEB_SCRAPE.replace("version: 1.0", "version: 1 0")
        .replace("timeout_seconds: 60", "timeout_seconds: soon", 1)
        .replace("draft/2020-12", "draft/7", 1)
        .replace('"source": {', '"sources": {')
        .replace('"max_tokens": 1500', '"max_tokens": "many"')
        .replace("error_code=fetch_timeout (retryable with backoff)", "error_code=slow")
    )
    assert codes(page) == [
        "bad_value", "bad_value", "schema_draft", "spec_and_schema_differ", "spec_and_schema_differ", "bad_value", "retry_rule_missing",
    ]  # fmt: skip
    lines = [problem.line for problem in problems(page)]
    assert lines == sorted(lines)


def test_any_number_of_warnings_leaves_the_errors_in_the_list() -> None:
    notes = PageNotes()
    for line in range(MAX_PROBLEMS + 1):
        notes.warning("odd", "", line, "odd")
    notes.error("bad_value", "", 500, "wrong")
    notes.error("bad_value", "", 501, "wrong")
    assert [problem.line for problem in notes.problems() if problem.level is ProblemLevel.ERROR] == [500, 501]


def test_a_disagreement_names_both_lines() -> None:
    page = WEB_SCRAPE.replace("  - url: string", "  - url: object")
    (problem,) = (problem for problem in problems(page) if problem.code == "spec_and_schema_differ")
    spec_line = page.split("\n").index("  - url: object") + 1
    assert f"(Worker spec, line {spec_line}; Input schema, line {problem.line})" in problem.message


@every_rendering
@pytest.mark.parametrize("section", ["Input schema", "Output schema", "Constraints"])
def test_a_page_that_is_cut_off_inside_json_says_so(rendered: Rendering, section: str) -> None:
    lines = rendered(WEB_SCRAPE).split("\n")
    start = next(index for index, line in enumerate(lines) if line.strip("# ") == section)
    begin = next(index for index in range(start, len(lines)) if lines[index] == "{")
    found = [problem for problem in problems("\n".join(lines[: begin + 4])) if problem.level is ProblemLevel.ERROR]
    assert [(problem.code, problem.section) for problem in found if problem.section == section] == [("json_cut_off", section)]
    assert found[0].line == begin + 4


def test_a_heading_with_nothing_below_it_is_no_missing_section() -> None:
    cut = WEB_SCRAPE[: WEB_SCRAPE.index("Output schema#") + len("Output schema#")]
    assert [problem.code for problem in problems(cut) if problem.level is ProblemLevel.ERROR] == ["json_missing"]


def test_a_fence_that_nobody_closed_does_not_swallow_the_page() -> None:
    page = markdown(WEB_SCRAPE).replace("```\n\n## Output schema", "\n## Output schema")
    assert codes(page) == ["fence_not_closed"]
    assert contract(page).output_schema == contract(WEB_SCRAPE).output_schema


def test_two_sections_of_one_name_are_an_error() -> None:
    assert "duplicate_section" in codes(markdown(WEB_SCRAPE) + "\n## Constraints\n\n```json\n{}\n```\n")


def test_a_heading_that_is_nearly_right_is_told() -> None:
    page = markdown(WEB_SCRAPE).replace("## Input schema", "## Input schemas")
    (told,) = (problem.message for problem in problems(page) if problem.code == "unknown_section")
    assert "Did you mean `Input schema`?" in told


@pytest.mark.parametrize(
    "page", ["", "\n\n", "hello", "# A page\n\nabout nothing", WEB_SCRAPE[:500]], ids=["empty", "blank", "word", "other", "cut"]
)
def test_what_is_no_worker_page_is_told_in_one_error(page: str) -> None:
    assert [problem.code for problem in problems(page) if problem.level is ProblemLevel.ERROR] == ["section_missing"]


def test_a_page_that_is_not_text_is_told_with_the_line_and_the_rest_is_read() -> None:
    data = WEB_SCRAPE.encode().replace(b"Timeout fetching", b"Timeout \xff fetching")
    (problem,) = read(data).errors
    assert (problem.code, problem.line) == ("not_text", data[: data.index(b"\xff")].count(b"\n") + 1)
    assert [problem.code for problem in read(WEB_SCRAPE.replace("Timeout fetching", "Timeout \0")).errors] == ["not_text"]
    assert [problem.code for problem in read(WEB_SCRAPE.replace("Timeout fetching", "Timeout \ud800")).errors] == ["not_text"]


def test_a_page_that_is_too_large_is_not_read() -> None:
    assert codes("x" * (MAX_PAGE_BYTES + 1)) == ["page_too_large"]


def test_a_missing_bound_on_time_is_a_warning_and_a_default() -> None:
    page = WEB_SCRAPE.replace("  timeout_seconds: 60\n", "").replace('  "timeout_seconds": 60,\n', "")
    assert codes(page) == ["timeout_missing"]
    assert contract(page).limits.timeout_seconds == 60


def test_a_tool_nobody_knows_is_a_warning() -> None:
    page = AWS_LAMBDA.replace("language_model", "langauge_model")
    (problem,) = (problem for problem in problems(page) if problem.code == "unknown_tool")
    assert problem.level is ProblemLevel.WARNING
    assert "Did you mean `language_model`?" in problem.message


def test_the_same_in_another_order_is_no_disagreement() -> None:
    assert codes(WEB_SCRAPE.replace("[fetch_url, parse_html]", "[parse_html, fetch_url]")) == []
    assert codes(WEB_SCRAPE.replace("timeout_seconds: 60", "timeout_seconds: 60.0", 1)) == []


def test_the_constraints_of_the_spec_are_enough() -> None:
    page = flat(WEB_SCRAPE)
    start, end = page.index("Constraints#"), page.index("Failure modes")
    assert codes(page[:start] + page[end:]) == ["section_missing"]
    assert contract(page[:start] + page[end:]).limits == contract(WEB_SCRAPE).limits


def test_a_page_with_errors_is_refused_as_a_contract_with_all_of_them() -> None:
    page = WEB_SCRAPE.replace("version: 1.0\n", "").replace("worker_id: web-scrape-worker\n", "")
    with pytest.raises(ContractInvalid) as refused:
        contract_of(page, name="scrape.md")
    assert str(refused.value).startswith("scrape.md is not a contract:\n  error[field_missing] Worker spec, line ")
    assert [problem.code for problem in refused.value.problems].count("field_missing") == 2
    assert contract_of(WEB_SCRAPE) == contract(WEB_SCRAPE)


def test_a_problem_reads_as_a_sentence() -> None:
    assert str(Problem(ProblemLevel.WARNING, "a_code", "FAQ", 3, "It is odd.")) == "warning[a_code] FAQ, line 3: It is odd."
    assert str(Problem(ProblemLevel.ERROR, "a_code", "", 3, "It is odd.")) == "error[a_code] line 3: It is odd."


def test_a_page_that_ends_inside_its_spec_is_cut_off_unless_the_spec_stands_in_a_block() -> None:
    cut = WEB_SCRAPE[: WEB_SCRAPE.index("Input schema#")]
    assert "page_cut_off" in codes(cut)
    assert "page_cut_off" in codes(flat(cut))
    assert codes(markdown(cut) + "```\n") == ["section_missing", "schema_derived", "schema_derived"]
