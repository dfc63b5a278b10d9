"""No text makes the reader raise: it answers with a contract or with errors, and says the lines of a page that exists."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.contract.page_reader import MAX_PAGE_BYTES, read
from holdfast.contract.terms import Contract, PageReading
from tests.parts import one_of_each
from tests.unit.worker_pages import AWS_LAMBDA, RENDERINGS, SITE_PAGES, WEB_SCRAPE, Rendering, flat, markdown

PAGES = [rendered(page) for page in SITE_PAGES.values() for rendered in RENDERINGS.values()]


def fair(page: str | bytes) -> PageReading:
    """What a page gave, after what must hold of any answer."""
    reading = read(page)
    assert (reading.contract is None) == bool(reading.errors)
    text = page if isinstance(page, str) else page.decode(errors="replace")
    last = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= problem.line <= last and problem.message and problem.code for problem in reading.problems)
    assert all(len(problem.message) < 1000 and problem.message.isprintable() for problem in reading.problems)
    if reading.contract is not None:
        assert msgspec.json.decode(msgspec.json.encode(reading.contract), type=Contract) == reading.contract
    return reading


@settings(deadline=None)  # a machine may stop to do something else
@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    fair(text)


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_are_answered(data: bytes) -> None:
    fair(data)


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.long)], ids=["some bytes", "every byte"])
@pytest.mark.parametrize("rendered", RENDERINGS.values(), ids=RENDERINGS.keys())
def test_a_page_may_be_cut_off_after_any_byte(rendered: Rendering, step: int) -> None:
    page = rendered(AWS_LAMBDA).encode()
    whole = fair(page).contract
    assert whole is not None
    for end in range(0, len(page), step):
        cut = fair(page[:end]).contract
        assert cut is None or (cut.worker_id, cut.limits) == (whole.worker_id, whole.limits), "half a page is never half a contract"


LINES = sorted({line for page in PAGES for line in page.split("\n")})
SIGNS = ["{", "}", "[", "]", "```", "```json", "~~~", "## Worker spec", "Constraints#", "constraints:", "  inputs:", "- a: enum(", "\0"]
PIECES = st.one_of(st.sampled_from(LINES), st.sampled_from(SIGNS), st.text(max_size=20))


@settings(deadline=None)
@given(st.lists(PIECES, max_size=60).map("\n".join))
@example("## Worker spec\n```\nworker_id: a")
@example("Worker spec#\ninputs: {a: {b: [c\noutputs: [\n")
@example("Worker spec#\ntool_quotas: {a: [1}\nretries: [a]\nconstraints: x\nobservability: {log_fields: 3}")
@example('Input schema\n{"properties": {"a": true, "b": {"$ref": "#/properties/b"}}}\nWorker spec\ninputs:\n- a: string\n- b: string')
@example('Input schema\n{"$defs": {"a": true, "b": {"$ref": "#/$defs/a"}}, "required": []}')
def test_pages_of_odd_pieces_are_answered(page: str) -> None:
    fair(page)


NEW = ["", "\n", "{", "}", '"', ":", "#", "```\n", "\0", " ", "- ", "\ud83d", "é", "[[[[[["]


@pytest.mark.parametrize("seed", one_of_each(range(6), kind=lambda seed: "seeds"))
def test_mutated_pages_are_answered(seed: int) -> None:
    chance = Random(seed)
    for page in PAGES:
        for _ in range(40):
            text = page
            for _ in range(chance.randint(1, 4)):
                at, size = chance.randrange(len(text)), chance.choice([0, 1, 1, 3, 30])
                new = chance.choice([*NEW, text[at : at + 40]])
                text = text[:at] + new + text[at + size :]
            fair(text)


WORDS = [
    "type", "properties", "required", "$defs", "$ref", "enum", "items", "anyOf", "if", "format", "pattern", "$id", "$schema", "x-redact",
    "additionalProperties", "url", "retries", "timeout_seconds", "tools_allowed", "rate_limit", "tool_quotas", "egress", "max_cost_usd",
    "max_attempts", "backoff", "approvals_required", "a",
]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["object", "string", "#", "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=25,
)


@settings(deadline=None)
@example({"enum": ["\x7f", "\n"], "type": "\u2028"}, "Input schema")
@given(json_values, st.sampled_from(["Input schema", "Output schema", "Constraints"]))
def test_any_json_in_the_place_of_a_schema_or_of_the_constraints_is_answered(value: object, section: str) -> None:
    page = markdown(WEB_SCRAPE)
    begin = page.index("{", page.index(f"## {section}"))
    fair(page[:begin] + json.dumps(value, indent=1) + page[page.index("\n```", begin) :])


@pytest.mark.parametrize("depth", [61, 1000, 50_000])
@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_json_of_any_depth_is_answered(depth: int, bracket: str) -> None:
    page = flat(WEB_SCRAPE)
    begin = page.index("{", page.index("Input schema#"))
    codes = [problem.code for problem in fair(page[:begin] + '{"x":' + bracket * depth).errors]
    assert "json_too_deep" in codes


@pytest.mark.parametrize(
    "page",
    [
        "Worker spec#\n" + "- " * 120_000,
        "Worker spec#\npurpose:" + " a" * 125_000,
        "Worker spec#\ntools_allowed: " + "[" * 250_000,
        "Worker spec#\n" + "key: [\n" * 37_000,
        "Worker spec#\ninputs:\n" + "- a: enum(" * 22_000,
        "Input schema#\n{" + '"' * 250_000,
        "Input schema#\n{" + '"a":1,' * 40_000 + '"b":2}',
        'Input schema#\n{"properties": {' + ",".join(f'"p{i}": {{"type": "string"}}' for i in range(8_000)) + "}}",
        "Constraints#\n{" + "\n" * 250_000,
        "Failure modes & handling#\n" + "- error_code=a retryable=true\n" * 8_000,
        "Failure modes & handling#\n" + "error_code=" * 22_000,
        "```\n" * 60_000,
        "#" * 250_000,
        "# " * 130_000,
        "a\n" * 130_000,
        "# " + " " * 250_000 + "x",
        "```" + " " * 250_000 + "`",
        "## " + "{#" * 120_000,
        "Worker spec#\ninputs:\n- a" + " " * 250_000 + "b",
        "Worker spec#\ninputs:\n- a: string" + " " * 250_000 + "(",
        "Worker spec#\ninputs:\n- a: enum(b" + "'" * 250_000,
        "Worker spec#\ntools_allowed: [a" + "'" * 250_000 + "]",
        "Worker spec#\ntools_allowed: [a" + "(," * 120_000 + "]",
        "Worker spec#\nrate_limit: 1/" + " " * 250_000,
        "Worker spec#\nkey" + " " * 250_000 + "x",
        "Problem:" + " " * 100_000 + "\n" + "worker.md " * 10_000,
        "Failure modes & handling#\n- error_code" + " " * 250_000 + "retryable" + " " * 9,
        "Observability signals#\n- " + "*" * 250_000,
        'Input schema#\n{"a"' + " " * 250_000 + "x",
        "Input schema#\n{" + ",".join(f'"requird{i}": 1' for i in range(10_000)) + "}",
    ],
    ids=lambda page: page[:24].strip(),
)
def test_huge_pages_are_answered_soon(page: str) -> None:
    assert len(page.encode()) <= MAX_PAGE_BYTES
    fair(page)
