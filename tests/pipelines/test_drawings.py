"""The drawings: every node is there with its kind, its worker and its state; texts fit their boxes; hostile names change nothing."""

from __future__ import annotations

import re
from decimal import Decimal
from xml.etree import ElementTree

import pytest

from holdfast.pipelines.draw.captions import STATES, Counts, NodeView
from holdfast.pipelines.draw.svg import CSS, draw_svg
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.graph import After, Graph, PipelineNode, RouteNode, Rule, SuperviseNode, UntilNode
from tests.pipelines.check_graphs import gate, graph, vendor_research, work
from tests.pipelines.templates import ref
from tests.pipelines.test_check_costs import SHAPES

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = {
    "pages": NodeView(state="partial", counts=Counts(200, 188, 12), cost=Decimal("0.42")),
    "facts": NodeView(state="ok", cost=Decimal("0.31")),
    "prices": NodeView(state="skipped", detail="access_denied"),
    "report": NodeView(state="ok"),
    "check": NodeView(state="running"),
    "sign-off": NodeView(state="waiting", detail="waits for check"),
}
ROUTED = graph(
    RouteNode(name="triage", labels=("refund", "spam"), value=ref("inputs", "text"), worker="plain"),
    work("pay", after=(After("triage", "refund"),)),
    work("drop", after=(After("triage", "spam"),)),
)


def nodes_of(picture: str) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(picture)
    return {group.attrib["data-node"]: group for group in root.iter(f"{SVG}g") if "data-node" in group.attrib}


# --- text ---------------------------------------------------------------------------------------------------------------------------


def test_a_text_has_each_node_in_a_box_with_its_kind_its_worker_and_its_state() -> None:
    text = draw_text(vendor_research(), VIEWS)
    for line in (
        "│ pages ", "│ map web-scrape-worker × 200 ", "│ ◕ partial · 200/200 · 12 failed · $0.42 │", "│ facts ", "│ worker fact-worker │",
        "│ ● ok · $0.31 ", "│ – skipped ", "│ merge union │", "│ gate validator-worker │", "│ ◎ running ", "│ human research-leads │",
        "│ ○ waiting ",
    ):  # fmt: skip
        assert line in text
    assert "revise ≤ 2" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_boxes_of_a_text_are_whole() -> None:
    """Each corner has its opposite: no line was drawn over a box."""
    text = draw_text(vendor_research(), VIEWS)
    assert len(re.findall("┌─+┐", text)) == len(re.findall("└─+┘", text)) == 7
    assert text.count("╭──") >= 2


def test_the_labels_of_a_route_stand_at_its_lines() -> None:
    text = draw_text(ROUTED)
    assert "▼ refund" in text
    assert "▼ spam" in text


def test_a_text_that_would_be_too_wide_is_a_list_with_the_same_facts() -> None:
    assert len(draw_text(vendor_research(), VIEWS, width=70).splitlines()) > 20
    listed = draw_text(vendor_research(), VIEWS, width=30).splitlines()
    assert len(listed) == 7
    assert all(len(line) <= 60 for line in listed)
    wide = draw_text(graph(*(work(f"n{at}") for at in range(20)), gate("g", "n0", revise="n0", rounds=1)))
    assert "g    gate    1 rule  ← n0  revises n0" in wide


@pytest.mark.parametrize("shape", SHAPES)
def test_a_text_of_a_thousand_hostile_nodes_is_a_list(shape: object) -> None:
    assert callable(shape)
    of: Graph = shape(1000)
    assert len(draw_text(of).splitlines()) == len(of.nodes)


# --- SVG ----------------------------------------------------------------------------------------------------------------------------


def test_a_picture_has_each_node_with_a_title_and_its_state_as_shape_word_and_colour() -> None:
    nodes = nodes_of(draw_svg(vendor_research(), VIEWS))
    assert set(nodes) == {node.name for node in vendor_research().nodes}
    facts = nodes["facts"]
    assert facts.findtext(f"{SVG}title") == "facts: worker; fact-worker; fallback fact-worker-small; ● ok · $0.31"
    assert [text.text for text in facts.iter(f"{SVG}text")] == ["facts", "worker  fact-worker", "ok · $0.31"]
    assert facts.attrib["class"] == "hf-node hf-worker hf-ok"
    assert facts.find(f"{SVG}circle") is not None
    assert "waits for check" in (nodes["sign-off"].findtext(f"{SVG}title") or "")
    assert all(f".hf-{state} " in CSS for state in STATES)


def test_loops_are_dashed_after_is_thin_and_labels_stand_at_lines() -> None:
    root = ElementTree.fromstring(draw_svg(vendor_research()))
    kinds = [
        group.attrib["class"]
        for group in root.iter(f"{SVG}g")
        if "data-node" not in group.attrib and "hf-node" not in group.attrib["class"]
    ]
    assert (kinds.count("hf-revise"), kinds.count("hf-after")) == (1, 2)
    assert ".hf-revise .hf-line{stroke-width:1.4px;stroke-dasharray:5 4}" in CSS
    assert [text.text for text in root.iter(f"{SVG}text") if text.attrib["class"] == "hf-label"] == ["revise ≤ 2"]
    routed = ElementTree.fromstring(draw_svg(ROUTED))
    assert [text.text for text in routed.iter(f"{SVG}text") if text.attrib["class"] == "hf-label"] == ["refund", "spam"]


def test_supervisors_loops_and_pipelines_are_drawn_as_what_they_are() -> None:
    rules = (Rule(path=".text", op="exists"),)
    looped = graph(
        SuperviseNode(name="plan", worker="chief", inputs={}, choices={"find": "a", "write": "b"}, turns=6, undo={"write": "c"}),
        UntilNode(name="poll", worker="status-worker", inputs={}, rules=rules, at_most=30, every_seconds=90, after=(After("plan"),)),
        PipelineNode(name="sub", worker="other", inputs={}, after=(After("poll"),)),
    )
    text = draw_text(looped)
    for line in ("│ supervise ≤ 6: find | write │", "│ until ≤ 30: status-worker, …", "│ pipeline other │"):
        assert line in text
    nodes = nodes_of(draw_svg(looped))
    title = "plan: supervise; ≤ 6: find | write; supervisor chief; find runs a; write runs b; undo of write c"
    assert nodes["plan"].findtext(f"{SVG}title") == title
    assert nodes["poll"].findtext(f"{SVG}title") == "poll: until; ≤ 30: status-worker, every 90s"
    assert len(list(nodes["sub"].iter(f"{SVG}rect"))) == 2, "a box in a box"


def test_a_picture_is_light_and_dark_and_loads_nothing() -> None:
    picture = draw_svg(vendor_research(), VIEWS)
    assert "@media (prefers-color-scheme:dark)" in picture
    for banned in ("<script", "href", "url(", "@import", "@font-face", "style=", "onload"):
        assert banned not in picture
    bare = draw_svg(vendor_research(), VIEWS, style=False)
    assert "<style" not in bare
    assert ElementTree.fromstring(bare).attrib["role"] == "img"


@pytest.mark.parametrize("views", [{}, VIEWS], ids=["plain", "states"])
def test_the_texts_of_a_picture_fit_their_boxes(views: dict[str, NodeView]) -> None:
    """By the widest usual font: DejaVu Sans has 0.68 em for a bold letter on average, 0.6 for a plain one."""
    long = graph(work("a" * 64, worker="w" * 100), work("W" * 30), gives={"text": "x"})
    for picture in (draw_svg(vendor_research(), views), draw_svg(long)):
        for group in nodes_of(picture).values():
            box = next(iter(group.iter(f"{SVG}rect")), None)
            if box is None:
                continue
            left, right = float(box.attrib["x"]), float(box.attrib["x"]) + float(box.attrib["width"])
            for text in group.iter(f"{SVG}text"):
                em = 13 * 0.68 if text.attrib["class"] == "hf-name" else 11.5 * 0.62
                assert left < float(text.attrib["x"])
                assert float(text.attrib["x"]) + em * len(text.text or "") * 0.95 < right


def test_hostile_names_are_text_and_nothing_else() -> None:
    """Names in graphs are bounded by their reader, but a drawing does not count on it."""
    hostile = 'x"><script>alert(1)</script>\x1b[31m\x00\ud800&'
    wrong = graph(work(hostile, worker=hostile), gives={"text": "x"})
    picture = draw_svg(wrong, {hostile: NodeView(state='"><script>', detail=hostile)})
    root = ElementTree.fromstring(picture.encode())
    assert [element.tag for element in root.iter() if "script" in element.tag] == []
    assert "\x1b" not in picture + draw_text(wrong)
    assert "\x00" not in draw_text(wrong, width=20)


def test_drawings_are_the_same_each_time() -> None:
    assert draw_svg(vendor_research(), VIEWS) == draw_svg(vendor_research(), VIEWS)
    assert draw_text(vendor_research(), VIEWS) == draw_text(vendor_research(), VIEWS)
