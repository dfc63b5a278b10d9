"""The pure tools: pure functions of hostile text."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.terms import BUILT_IN_TOOLS
from holdfast.model import codec
from holdfast.workers.tools.pure import PURE, call_pure, json_schema_validate, parse_html
from holdfast.workers.tools.seam import ToolFailed

PAGE = """<!doctype html><html lang=de><head><title> A
 page </title><meta name="Description" content="what it is"><meta property="og:title" content="OG"><base href="/shop/">
<script type="application/ld+json">{"@graph": [{"@type": "Product", "name": "Tea"}, {"@type": "Offer"}]}</script>
<script type="application/ld+json">{broken</script><script>var x = "<p>not text</p>"</script></head>
<body><h1 id=top data-x>Tea &amp; more</h1><p>One<p>Two <a href="tea.html?a=1&b=2">the   tea</a><a href="javascript:alert(1)">bad</a>
<a href="//cdn.example/x">cdn</a><style>p {}</style></body>"""


def test_a_page_becomes_data() -> None:
    links = {"css": "a", "attribute": "href", "all": True}
    page = parse_html(PAGE, "https://a.example/x/", {"h": "h1", "links": links, "none": "video", "x": {"css": "h1", "attribute": "data-x"}})
    assert (page["title"], page["language"], page["meta"]) == ("A page", "de", {"description": "what it is", "og:title": "OG"})
    assert page["text"] == "Tea & more One Two the tea bad cdn"
    assert page["links"] == [
        {"href": "https://a.example/shop/tea.html?a=1&b=2", "text": "the tea"},
        {"href": "https://cdn.example/x", "text": "cdn"},
    ]
    assert [item.get("@type") for item in page["json_ld"]] == [None, "Product", "Offer"]
    assert page["selected"] == {
        "h": "Tea & more",
        "links": ["tea.html?a=1&b=2", "javascript:alert(1)", "//cdn.example/x"],
        "none": None,
        "x": "",
    }


@pytest.mark.parametrize("html", [
    "", " ", "<", "<!--", "<html", "\0\0", "<p>\ud800</p>", "plain", "<table><p>x", "</p></div>",
    "<base href='http://[bad'><a href='x'>y</a>", "<svg><p>",
])  # fmt: skip
def test_no_page_is_too_broken(html: str) -> None:
    codec.dumps(parse_html(html, "https://a.example/"))


@given(st.text(alphabet=st.sampled_from("<>/=\"' abpdiv!-&;\0\ud800é"), max_size=300))
def test_whatever_is_fed_json_comes_out(html: str) -> None:
    codec.dumps(parse_html(html, "https://a.example/", {"x": {"css": "*", "html": True, "all": True}}))


@pytest.mark.parametrize(
    "html", ["<div>" * 200_000 + "x" + "</div>" * 200_000, "<b>" * 200_000, "<ul><li>" * 100_000, "<p>" * 200_000, "<a href=x>" * 100_000]
)
def test_endless_nesting_is_read_in_a_moment(html: str) -> None:
    began = process_time()
    parse_html(html)
    assert process_time() - began < 20


def test_a_deep_page_keeps_its_text_and_its_end() -> None:
    html = "<div>" * 5_000 + "deep" + "</div>" * 5_000 + "<h1>after</h1><script>'" + "<div>" * 5_000 + "'</script><h2>last</h2>"
    page = parse_html(html, select={"h": "body > h1", "l": "body > h2"})
    assert (page["text"], page["selected"]) == ("deep after last", {"h": "after", "l": "last"})


def test_a_selector_that_is_none_is_named() -> None:
    with pytest.raises(ToolFailed, match=r"select.price: 'p\[\[' is not a CSS selector"):
        parse_html("<p>", select={"price": "p[["})


def test_a_value_is_checked_and_every_mismatch_named() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"format": "email"}}}
    assert json_schema_validate({"a": 1}, schema) == {"valid": True, "problems": []}
    found = json_schema_validate({"a": "1", "b": "nobody"}, schema)
    assert (found["valid"], [problem["path"] for problem in found["problems"]]) == (False, ["/a", "/b"])


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "#/nowhere"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/hostname"}]
)
def test_a_schema_that_is_none_or_leads_outside_is_refused(schema: dict[str, str]) -> None:
    with pytest.raises(ToolFailed, match="not a JSON Schema"):
        json_schema_validate(1, schema)


def test_the_pure_tools_are_these() -> None:
    assert sorted(PURE) == ["json_schema_validate", "merge_rules", "parse_html", "redact_pii", "rules_engine"]
    assert set(PURE) < BUILT_IN_TOOLS


def test_rules_are_asked_and_each_broken_place_is_named() -> None:
    rules = [{"path": ".price", "op": "at_least", "value": 0}, {"path": ".tags[*]", "op": "in", "value": ["a"], "severity": "warning"}]
    assert call_pure("rules_engine", {"value": {"price": 1, "tags": ["a"]}, "rules": rules}) == {"holds": True, "reasons": []}
    told = call_pure("rules_engine", {"value": {"price": -1, "tags": ["a", "b"]}, "rules": rules})
    assert told["holds"] is False
    assert [(reason["path"], reason["severity"]) for reason in told["reasons"]] == [(".price", "error"), (".tags[1]", "warning")]
    assert call_pure("rules_engine", {"value": {"price": 1, "tags": ["b"]}, "rules": rules})["holds"] is True
    assert call_pure("rules_engine", {"value": {"price": -1, "tags": ["b"] * 200}, "rules": rules[::-1]})["holds"] is False


@pytest.mark.parametrize("rule", [
    {"path": "price", "op": "exists"}, {"path": "", "op": "matches", "value": "("}, {"path": "", "op": "matches", "value": "(?=a)"},
    {"path": "", "op": "in", "value": 1},
])  # fmt: skip
def test_a_rule_that_can_never_hold_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ToolFailed, match=r"Rule 1 \(from 0\) cannot be checked") as refused:
        call_pure("rules_engine", {"value": 1, "rules": [{"path": "", "op": "exists"}, rule]})
    assert refused.value.details == {"reason": "rules", "rule": 1}


def test_parts_are_merged_and_a_part_without_a_value_is_missing() -> None:
    parts = [{"source": "a", "value": {"x": 1}}, {"source": "b", "value": {"x": 2}}, {"source": "c"}]
    told = call_pure("merge_rules", {"parts": parts, "policy": "best_effort"})
    assert (told["outputs"], told["missing"], told["error_code"]) == ({"x": 1}, ["c"], None)
    assert told["conflicts"] == [{"path": ".x", "values": [{"source": "a", "value": 1}, {"source": "b", "value": 2}]}]
    assert call_pure("merge_rules", {"parts": parts, "policy": "strict"})["error_code"] == "merge_conflict"


@pytest.mark.parametrize("tool,arguments", [
    ("parse_html", {}), ("parse_html", {"html": 7}), ("parse_html", {"html": "", "select": {"a": {"xpath": "//a"}}}),
    ("json_schema_validate", {"value": 1}),
    ("json_schema_validate", {"value": 1, "schema": "x"}), ("parse_html", {"html": "", "more": 1}),
    ("rules_engine", {"value": 1, "rules": [{"path": "", "op": "eval"}]}), ("rules_engine", {"value": 1, "rules": [{"op": "exists"}]}),
    ("rules_engine", {"value": 1, "rules": [{"path": "", "op": "exists", "severity": "fatal"}]}),
    ("merge_rules", {"parts": [], "policy": "last"}), ("merge_rules", {"parts": [{"value": 1}], "policy": "first"}),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_named(tool: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolFailed, match="do not fit"):
        call_pure(tool, arguments)
    assert call_pure("parse_html", {"html": "<title>x</title>"})["title"] == "x"


@pytest.mark.parametrize("separator", [" ", "/", "='<' ", '="x>"'])
def test_a_tag_with_endless_attributes_loses_most_of_them_and_the_page_nothing_else(separator: str) -> None:
    code = "<script>if (a<b) {" + "x/y=1 " * 5000 + "}</script>"
    crowd = "".join(f"a{number}{separator}" for number in range(30_000))
    began = process_time()
    read = parse_html(f"<p>before</p>{code}<h1 id=it {crowd}>title</h1><p>after</p>", select={"it": "#it", "script": {"css": "script"}})
    assert process_time() - began < 5
    assert (read["selected"]["it"], read["text"]) == ("title", "before title after")
    assert read["selected"]["script"].startswith("if (a<b) {x/y=1")
