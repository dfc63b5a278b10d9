"""The words that a drawing shows for a node: what it does, and its state. The drawing as text and the picture use the same words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple, assert_never

import msgspec

from holdfast.pipelines.graph.durations import duration_of
from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    RouteNode,
    StepNode,
    SuperviseNode,
    UntilNode,
    WaitNode,
    WorkerNode,
    kind_of,
)

_CENT: Final = Decimal("0.01")


class StateStyle(NamedTuple):
    """How a state is shown in addition to its word: a mark, a colour on light pages, and a colour on dark pages."""

    mark: str
    light: str
    dark: str


STATES: Final[Mapping[str, StateStyle]] = {
    "waiting": StateStyle("○", "#5b6472", "#a3adba"),
    "running": StateStyle("◎", "#1d5fbf", "#7ab3ff"),
    "person": StateStyle("◇", "#7a3fb8", "#c9a2ff"),
    "ok": StateStyle("●", "#1b6e3c", "#63cf8d"),
    "partial": StateStyle("◕", "#0f6b6b", "#5ccfcf"),
    "skipped": StateStyle("–", "#5b6472", "#a3adba"),
    "blocked": StateStyle("■", "#8a5a00", "#f0b64a"),
    "failed": StateStyle("✕", "#b3261e", "#ff8f87"),
    "undone": StateStyle("↩", "#6b4a3a", "#d0a48e"),
}
"""How each state of a node is shown. `person` is the state of a node that waits for a person."""


class Counts(msgspec.Struct, frozen=True):
    """The numbers of a map's items: all (0 if the map has not ended well and its list cannot be read), those that succeeded, and those that
    failed."""

    total: int
    ok: int = 0
    failed: int = 0


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """What a drawing shows of a node in a run."""

    state: str
    detail: str = ""
    """A text for people: what the node waits for, its progress, a note about its result, or why it ended in this state. It may be empty."""
    counts: Counts | None = None
    """The items of a map; None for other nodes, and for a map that has neither begun nor ended."""
    cost: Decimal | None = None
    """What the finished runs of the node have cost, in US dollars; None if it has none."""


Views = Mapping[str, NodeView]


def about(node: AnyNode) -> str:
    """A few words about a node, which depend on its kind: for instance its worker, its policy or its approvers."""
    match node:
        case WorkerNode():
            return node.worker
        case MapNode():
            return f"{node.worker} × {node.at_most}"
        case MergeNode():
            return node.worker or str(node.policy or "")
        case GateNode():
            judge = node.worker or ("schema" if node.schema is not None else _counted(len(node.rules), "rule"))
            return f"{judge}, shadow" if node.shadow else judge
        case HumanNode():
            who = ", ".join(node.approvers) or "any person"
            return who if node.votes == 1 else f"{node.votes} of {who}"
        case RouteNode():
            return node.worker or " | ".join(node.labels)
        case SuperviseNode():
            return f"≤ {node.turns}: {' | '.join(node.choices)}"
        case UntilNode():
            return f"≤ {node.at_most}: {node.worker}, every {duration_of(node.every_seconds)}"
        case StepNode():
            return node.function
        case WaitNode():
            return duration_of(node.seconds)
        case _:
            assert_never(node)


def state_line(view: NodeView) -> str:
    """The state in one line: the mark (`?` for an unknown state), the word, the counts of a map, and the cost if it is known and not 0."""
    parts = [f"{STATES[view.state].mark if view.state in STATES else '?'} {view.state}"]
    if view.counts is not None:
        parts.append(f"{view.counts.ok + view.counts.failed}/{view.counts.total}")
        if view.counts.failed:
            parts.append(f"{view.counts.failed} failed")
    if view.cost:
        parts.append(money(view.cost))
    return " · ".join(parts)


def money(cost: Decimal) -> str:
    """An amount of US dollars as text: with two decimals, or with four if it is below one cent and not 0."""
    return f"${cost:,.2f}" if cost >= _CENT or not cost else f"${cost:.4f}"


def told(graph: Graph, node: AnyNode, view: NodeView | None) -> str:
    """A description of a node in one line, for the title of its box: its kind, what it does, and its state in a run if `view` is not
    None."""
    parts = [f"{node.name}: {kind_of(node)}", about(node)]
    if isinstance(node, WorkerNode | MapNode):
        parts += [f"fallback {', '.join(node.fallback)}"] if node.fallback else []
        parts += [f"undo {node.undo.worker}"] if node.undo is not None else []
    if isinstance(node, SuperviseNode):
        parts += [f"supervisor {node.worker}", *(f"{label} runs {worker}" for label, worker in node.choices.items())]
        parts += [f"undo of {label} {worker}" for label, worker in node.undo.items()]
    if isinstance(node, GateNode) and node.revise is not None:
        parts.append(f"revises {node.revise} up to {_counted(node.rounds, 'time')}")
    if view is not None:
        parts += [state_line(view), *([view.detail] if view.detail else [])]
    return "; ".join(part for part in parts if part)


def rounds_label(graph: Graph, gate: str) -> str:
    """The label of the edge from a gate to the node that it revises: `revise ≤ 3`. 3 is the gate's number of rounds."""
    node = next((one for one in graph.nodes if one.name == gate), None)
    return f"revise ≤ {node.rounds}" if isinstance(node, GateNode) else "revise"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
