"""Checks the structure of a graph: names, workers, cycles, loops, bounds, labels, and nodes whose results are not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.contract.terms import RunLimits
from holdfast.model import json_structs
from holdfast.pipelines.check.known import WorkersById, doers_of, found, workers_of
from holdfast.pipelines.check.table import Found, listed, named
from holdfast.pipelines.graph.contract import time_limit
from holdfast.pipelines.graph.graph import (
    AnyNode,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    PipelineNode,
    RouteNode,
    SuperviseNode,
    UntilNode,
    WaitNode,
    parted,
)
from holdfast.pipelines.graph.order import NodeOrder
from holdfast.pipelines.graph.templates import RESERVED, sources_in

_HUMAN_DEFAULT_SECONDS = HumanNode(name="", show=None).within_seconds


def check_names(graph: Graph, problems: Found) -> None:
    """Add problems for names that two nodes have, and names that are reserved for references."""
    for name, times in Counter(node.name for node in graph.nodes).items():
        if times > 1:
            problems.add("duplicate_name", name, f"{times} nodes are named {named(name)}.")
        if name in RESERVED:
            problems.add("reserved_name", name, f"{named(name)} is reserved for references.")


def check_workers(graph: Graph, workers: WorkersById, problems: Found) -> None:
    """Add problems for workers and versions of workers that are not known, a pipeline that runs itself (directly or through others), and a
    `pipeline` node that runs a worker."""
    own = graph.contract.get("worker_id")
    for node in graph.nodes:
        for worker in workers_of(node):
            name, version = parted(worker)
            known = found(workers, worker)
            if name == own:
                problems.add("unbounded_loop", node.name, f"The node runs {named(name)}, the pipeline to which it belongs.")
            elif name not in workers or not workers[name]:
                problems.add("unknown_worker", node.name, f"There is no worker {named(name)}.{_meant(name, workers)}")
            elif known is None:
                problems.add("unknown_version", node.name, f"{named(name)} is known in {listed(workers[name])}, not in {named(version)}.")
            elif known.inside is not None and own in known.inside.runs:
                told = f"The node runs {named(name)}, which runs {named(own)}, the pipeline to which the node belongs."
                problems.add("unbounded_loop", node.name, told)
            elif isinstance(node, PipelineNode) and worker == node.worker and known.inside is None:
                problems.add("not_a_pipeline", node.name, f"{named(name)} is a worker, not a pipeline.")


def _meant(name: str, workers: WorkersById) -> str:
    from difflib import get_close_matches  # imported here, because only this message needs it

    close = get_close_matches(name[:100], list(workers)[:1000], n=1)
    return f" Did you mean {named(close[0])}?" if close else ""


def check_order(order: NodeOrder, problems: Found) -> None:
    """Add problems for cycles, and for names in `after` and `revise` that no node has."""
    for cycle in order.cycles():
        told = f"{named(cycle[0])} waits for itself." if len(cycle) == 1 else f"{listed(cycle)} wait for each other."
        problems.add("cycle", cycle[0], told)
    for node in order.nodes.values():
        for after in node.after:
            if after.node not in order.nodes:
                problems.add("unknown_node", node.name, f"It comes after {named(after.node)}, and there is no such node.")
        if isinstance(node, GateNode) and node.revise is not None and node.revise not in order.nodes:
            problems.add("unknown_node", node.name, f"It revises {named(node.revise)}, and there is no such node.")


def check_needed(graph: Graph, order: NodeOrder, workers: WorkersById, problems: Found) -> None:
    """Add problems for nodes that are not needed: neither the outputs, nor a gate, a person or a worker that may change something uses
    their result or waits for them, directly or through other nodes. Gates, persons and such workers themselves are no problems. A worker
    that is not known is treated as one that may change something."""
    needed = sum(order.bit(source) for source in sources_in(graph.gives) if source in order.nodes)
    for node in order.nodes.values():
        known = [found(workers, worker) for worker in doers_of(node)]
        if isinstance(node, GateNode | HumanNode) or any(one is None or one.writes for one in known):
            needed |= order.bit(node.name)
    for name in list(order.names(needed)):
        needed |= order.above[name]
    for name in order.nodes:
        if not needed & order.bit(name):
            problems.add("unreachable_node", name, f"The result of {named(name)} is not used.")


def check_labels(order: NodeOrder, problems: Found) -> None:
    """Add problems for labels in `after` and in rules that the named route does not have, labels of a node that is not a route, and nodes
    that need two labels of one route."""
    for node in order.nodes.values():
        wanted: dict[str, set[str]] = {}
        for after in node.after:
            if after.label is not None and (route := order.nodes.get(after.node)) is not None:
                wanted.setdefault(after.node, set()).add(after.label)
                if not isinstance(route, RouteNode):
                    problems.add("unknown_label", node.name, f"{named(after.node)} is not a route and has no label {named(after.label)}.")
                elif after.label not in route.labels:
                    told = f"{named(after.node)} has no label {named(after.label)}; it has {listed(route.labels)}."
                    problems.add("unknown_label", node.name, told)
        for route_name, labels in wanted.items():
            if len(labels) > 1:
                problems.add("never_runs", node.name, f"It runs only if {named(route_name)} chooses {listed(sorted(labels))} together.")
        if isinstance(node, RouteNode):
            for label in node.rules:
                if label not in node.labels:
                    problems.add("unknown_label", node.name, f"It has rules for {named(label)}, which is not one of its labels.")


def check_loops(order: NodeOrder, workers: WorkersById, problems: Found) -> None:
    """Add problems for loops and maps without a bound, gates that judge nothing or that have a worker and also a schema or rules, revisions
    that begin at a wrong node or overlap, and revisions and `until` nodes that repeat a side effect."""
    taken = 0
    owner: dict[str, str] = {}
    for node in order.nodes.values():
        if isinstance(node, MapNode) and node.at_most < 1:
            problems.add("unbounded_map", node.name, f"`at_most` is {node.at_most}.")
        if isinstance(node, UntilNode):
            _check_until(node, workers, problems)
        if isinstance(node, SuperviseNode) and node.turns < 1:
            problems.add("unbounded_loop", node.name, f"`turns` is {node.turns}.")
        if not isinstance(node, GateNode):
            continue
        if node.worker is None and node.schema is None and not node.rules:
            problems.add("gate_judges_nothing", node.name, f"{named(node.name)} lets everything pass.")
        if node.worker is not None and (node.schema is not None or node.rules):
            problems.add("gate_judges_twice", node.name, f"Only {named(node.worker)} would judge.")
        if node.revise is None or node.revise not in order.nodes:
            continue
        if node.rounds < 1:
            problems.add("unbounded_loop", node.name, f"It revises {named(node.revise)}, and `rounds` is {node.rounds}.")
        between = order.between(node.revise, node.name)
        if not between:
            problems.add("revise_not_upstream", node.name, f"{named(node.revise)} is not above {named(node.name)}.")
        if both := between & taken:
            first = next(order.names(both))
            told = f"{named(first)} would run again for {named(node.name)} and for {named(owner[first])}."
            problems.add("revise_overlaps", node.name, told)
        for name in order.names(between & ~taken):
            owner[name] = node.name
            for worker in doers_of(order.nodes[name]):
                if (known := found(workers, worker)) is not None and known.writes:
                    told = f"Each round runs {named(name)} again, which may use {listed(sorted(known.writes))}."
                    problems.add("revise_repeats_effect", node.name, told)
        taken |= between


def _check_until(node: UntilNode, workers: WorkersById, problems: Found) -> None:
    if node.at_most < 1:
        problems.add("unbounded_loop", node.name, f"`at_most` is {node.at_most}.")
    if (known := found(workers, node.worker)) is not None and known.writes:
        told = f"Each run of {named(node.worker)} may use {listed(sorted(known.writes))} again."
        problems.add("until_repeats_effect", node.name, told)


def check_limits(graph: Graph, problems: Found) -> None:
    """Add problems for nodes that may take longer, or spend more, than the whole pipeline. The default time of a human node is not
    compared."""
    limits = json_structs.converted(graph.contract.get("limits") or {}, RunLimits)
    most = time_limit(limits)
    for node in graph.nodes:
        for seconds, what in _times(node):
            if most is not None and seconds > most:
                problems.add("time_above_pipeline", node.name, f"{what} {seconds} s, and the whole pipeline may take {most:g} s.")
        for own, whole, unit in (
            (node.caps.max_tokens, limits.max_tokens, "tokens"),
            (node.caps.max_cost_usd, limits.max_cost_usd, "USD"),
        ):
            if own is not None and whole is not None and own > whole:
                problems.add("budget_above_pipeline", node.name, f"The node may spend {own} {unit}, and the whole pipeline {whole} {unit}.")


def _times(node: AnyNode) -> Iterator[tuple[int, str]]:
    if node.caps.timeout_seconds is not None:
        yield node.caps.timeout_seconds, "The node may take"
    if isinstance(node, WaitNode):
        yield node.seconds, "The node waits"
    if isinstance(node, UntilNode):
        yield (node.at_most - 1) * node.every_seconds, "The node waits between its runs up to"
    if isinstance(node, HumanNode) and node.within_seconds != _HUMAN_DEFAULT_SECONDS:
        yield node.within_seconds, "The person has"
