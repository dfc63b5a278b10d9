"""The layout of graphs: boxes do not overlap, lines end at boxes and pass through none, and the same graph gives the same layout."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.draw.layout import BEGIN, END, Box, DrawingLengths, Layout, layout
from holdfast.pipelines.graph.edges import edges_of
from holdfast.pipelines.graph.graph import After, AnyNode, Graph, MergeNode, MergePart, StepNode
from tests.parts import examples
from tests.pipelines.check_graphs import gate, graph, vendor_research, work
from tests.pipelines.templates import out, ref
from tests.pipelines.test_check_costs import SHAPES

PIXELS = DrawingLengths(box=lambda name: (90 + 10 * (len(name) % 9), 48), gap=26, track=12, port=14, arrow=18, margin=16)
LETTERS = DrawingLengths(box=lambda name: (12 + 2 * (len(name) % 7), 4), gap=3, track=1, port=2, arrow=1, margin=0)


def chosen(seed: int) -> Graph:
    """A graph by chance: chains, merges, gates with loops, edges over many layers, now and then a cycle."""
    random = Random(seed)
    nodes: list[AnyNode] = []
    for at in range(random.randrange(1, 25)):
        ups = random.sample([node.name for node in nodes], min(len(nodes), random.randrange(3)))
        name = f"{'n' * random.randrange(1, 9)}{at}"
        after = tuple(After(random.choice(nodes).name) for _ in range(random.randrange(2)) if nodes)
        if len(ups) == 2:
            nodes.append(MergeNode(name=name, parts=tuple(MergePart(up, out(up)) for up in ups), policy="union", after=after))
        elif ups and random.random() < 0.4:
            nodes.append(gate(name, ups[0], revise=ups[0] if random.random() < 0.6 else None, rounds=1, after=after))
        else:
            late = (After(f"n{at + 1}"),) if random.random() < 0.05 else ()
            nodes.append(StepNode(name=name, function="f", inputs=out(ups[0]) if ups else ref("inputs"), after=(*after, *late)))
    return graph(*nodes, gives={"text": out(random.choice(nodes).name)})


def inside(x: float, y: float, box: Box) -> bool:
    return box.x < x < box.x + box.width and box.y < y < box.y + box.height


def assert_sound(drawn: Layout, of: Graph) -> None:
    boxes = {box.name: box for box in drawn.boxes}
    assert set(boxes) == {BEGIN, END, *(node.name for node in of.nodes)}
    for at, one in enumerate(drawn.boxes):
        assert inside(one.x + 0.5, one.y + 0.5, Box("", 0, 0, drawn.width, drawn.height))
        assert (one.x + one.width <= drawn.width, one.y + one.height <= drawn.height) == (True, True)
        for two in drawn.boxes[at + 1 :]:
            apart = one.x + one.width < two.x or two.x + two.width < one.x or one.y + one.height < two.y or two.y + two.height < one.y
            assert apart, (one, two)
    for wire in drawn.wires:
        for end, name in ((wire.points[0], wire.source), (wire.points[-1], wire.target)):
            box = boxes[name]
            assert box.x < end[0] < box.x + box.width, (wire, box)
            assert end[1] in (box.y, box.y + box.height), (wire, box)
        for (x1, y1), (x2, y2) in pairwise(wire.points):
            assert x1 == x2 or y1 == y2, wire
            for box in drawn.boxes:
                assert not inside((x1 + x2) / 2, (y1 + y2) / 2, box), (wire, box)
                if x1 == x2:
                    crosses = box.x < x1 < box.x + box.width and min(y1, y2) < box.y + box.height and max(y1, y2) > box.y
                else:
                    crosses = box.y < y1 < box.y + box.height and min(x1, x2) < box.x + box.width and max(x1, x2) > box.x
                assert not crosses, (wire, box)


@pytest.mark.parametrize("metrics", [PIXELS, LETTERS], ids=["pixels", "letters"])
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**40))
def test_boxes_do_not_overlap_and_lines_end_at_boxes_and_pass_through_none(metrics: DrawingLengths, seed: int) -> None:
    of = chosen(seed)
    assert_sound(layout(of, metrics), of)


def test_every_edge_is_drawn_once_and_a_line_of_two_kinds_is_a_line_of_data() -> None:
    of = graph(work("a"), work("b", "a", after=(After("a"),)), gate("g", "b", revise="a", rounds=1))
    wires = {(wire.source, wire.target): wire.kind for wire in layout(of, PIXELS).wires}
    assert wires == {(BEGIN, "a"): "data", ("a", "b"): "data", ("b", "g"): "data", ("g", "a"): "revise", ("b", END): "data"}
    good = vendor_research()
    drawn = {(wire.source, wire.target, wire.kind == "revise") for wire in layout(good, PIXELS).wires}
    assert {(edge.source, edge.target, edge.kind == "revise") for edge in edges_of(good)} <= drawn


def test_a_node_stands_below_everything_it_needs_and_a_loop_leads_up() -> None:
    of = vendor_research()
    drawn = layout(of, PIXELS)
    for wire in drawn.wires:
        assert (wire.points[0][1] > wire.points[-1][1]) == (wire.kind == "revise")


@pytest.mark.parametrize("sideways", [True, False])
def test_lines_of_different_sources_do_not_lie_on_each_other(sideways: bool) -> None:
    """Else a reader could not tell which source a line has. Lines may join above the box where both end."""
    for seed in range(40):
        lines: dict[int, list[tuple[int, int, str, str, str]]] = {}
        for wire in layout(chosen(seed), PIXELS).wires:
            down = wire.points[0][1] <= wire.points[-1][1]
            upper, lower = (wire.source, wire.target) if down else (wire.target, wire.source)
            for (x1, y1), (x2, y2) in pairwise(wire.points):
                if (y1 == y2) == sideways:
                    at, low, high = (y1, min(x1, x2), max(x1, x2)) if sideways else (x1, min(y1, y2), max(y1, y2))
                    lines.setdefault(at, []).append((low, high, upper, wire.kind, lower))
        for spans in lines.values():
            for (low, high, source, kind, target), other in combinations(spans, 2):
                joins = not sideways and target == other[4] and "revise" not in (kind, other[3])
                assert joins or (source, kind) == other[2:4] or high <= other[0] or other[1] <= low


@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_graphs_are_laid_out(shape: object) -> None:
    assert callable(shape)
    of: Graph = shape(40)
    assert_sound(layout(of, LETTERS), of)
    assert layout(of, LETTERS) == layout(of, LETTERS)


def test_a_graph_without_nodes_is_two_boxes_and_a_line() -> None:
    drawn = layout(graph(gives={"text": "x"}), PIXELS)
    assert ([box.name for box in drawn.boxes], len(drawn.wires)) == ([BEGIN, END], 1)


def test_a_chain_is_drawn_straight() -> None:
    of = graph(*(work(f"n{at}", f"n{at - 1}" if at else "inputs") for at in range(12)))
    assert all(len(wire.points) == 2 for wire in layout(of, PIXELS).wires)
