"""The bounds of a graph: the form of names, the range of numbers, and the length of lists and texts. They hold for every graph, also for
one that a client sent, and keep a hostile graph small.

A graph may be wrong in other ways (a cycle, an unknown worker): `holdfast check` finds those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from holdfast.pipelines.graph.durations import MAX_SECONDS
from holdfast.pipelines.graph.graph import (
    FINISH,
    SUPERVISED,
    AnyNode,
    Caps,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    MergeNode,
    PipelineNode,
    RouteNode,
    Rule,
    StepNode,
    SuperviseNode,
    Template,
    Undo,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from holdfast.pipelines.graph.paths import path_of, text_of
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import RESERVED, constant_flaw, flaws_in

MAX_NODES: Final = 1_000
MAX_AT_MOST: Final = 100_000
MAX_AT_ONCE: Final = 1_000
MAX_ROUNDS: Final = 20
"""The largest `rounds` of a gate."""
MAX_TURNS: Final = 100
"""The largest `turns` of a supervise node. Each turn is kept in the history of the run."""
MAX_TIMES: Final = 1_000
"""The largest `at_most` of an `until` node. Each run of its worker is kept in the history."""
MAX_CHOICES: Final = 50
"""The most `choices` of a supervise node. The supervisor gets the list of all of them in each turn."""
MAX_VOTES: Final = 20
"""The largest `votes` of a human node."""
MAX_CHAIN: Final = 10
"""The most parts in the `then` of a human node."""
MAX_FALLBACKS: Final = 20
MAX_LISTED: Final = 100
"""The most elements in one list of rules, labels, approvers or included files, and the most error codes in `on_failure`."""
MAX_TEXT: Final = 4_000
"""The question of a human node, and the message of a rule, has at most this many characters."""
_MOST: Final = 2**53
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_WORKER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(@[A-Za-z0-9][A-Za-z0-9._+-]{0,63})?")
_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PACKAGE: Final = re.compile(r"[0-9a-f]{64}/[^\x00]{1,512}")
_NAMES: Final = "Write 1 to 64 lower-case letters, digits, - or _, with a letter or a digit first: `sign-off`."


def check_graph(graph: Graph) -> None:
    """Raises PipelineInvalid if a graph breaks a bound. The error names the first flaw that is found, and its place."""
    check_contract(graph.contract)
    if graph.steps is not None and not _PACKAGE.fullmatch(graph.steps):
        raise PipelineInvalid(
            f"{graph.steps!r:.80} is not the name of a package: 64 hexadecimal digits, / and the name of a file.", "steps"
        )
    if len(graph.nodes) > MAX_NODES:
        raise PipelineInvalid(f"The pipeline has {len(graph.nodes)} nodes; at most {MAX_NODES} are allowed.", "nodes")
    seen: dict[str, int] = {}
    for at, node in enumerate(graph.nodes):
        check_node(node, f"nodes[{at}]")
        if node.name in seen:
            raise PipelineInvalid(f"Two nodes are named {node.name!r}; the other is nodes[{seen[node.name]}].", f"nodes[{at}].name")
        seen[node.name] = at
    check_template(graph.gives, "gives")


def check_contract(contract: dict[str, Any]) -> None:
    """Raises PipelineInvalid if the id, the version or a schema is missing or has a wrong form. `contract.contract_in` checks the rest of
    the contract."""
    for key, form in (("worker_id", _ID), ("version", _VERSION)):
        if not isinstance(contract.get(key), str) or not form.fullmatch(contract[key]):
            raise PipelineInvalid(
                f"{contract.get(key)!r:.80} is not a valid {key}. "
                "Write 1 to 64 letters, digits, - or _ (in a version also . and +), with a letter or a digit first.",
                f"contract.{key}",
            )
    for key in ("input_schema", "output_schema"):
        if not isinstance(contract.get(key), dict):
            raise PipelineInvalid("The schema must be a JSON object.", f"contract.{key}")


def check_node(node: AnyNode, where: str = "") -> None:
    """Raises PipelineInvalid if a node breaks a bound. The error names the first flaw that is found. `where` is the place of the node in
    the graph, for the error; without it the error names no place."""
    for what, at in _flaws(node):
        raise PipelineInvalid(what, f"{where}.{at}" if where else "")


def check_template(template: Template, where: str = "", *, item: bool = False) -> None:
    """Raises PipelineInvalid if a template has a wrong form. The error names the first flaw that is found. `where` is the place of the
    template in the graph, for the error. `item`: whether the template may refer to `item` and `index` of a map."""
    for flaw in flaws_in(template, item=item):
        raise PipelineInvalid(flaw.what, f"{where}{text_of(flaw.where)}")


_Flaws = Iterator[tuple[str, str]]


def name_flaw(name: str) -> str | None:
    """Why a text cannot be the name of a node, as a sentence; None if it can."""
    if not _NAME.fullmatch(name):
        return f"{name!r:.80} is not a name of a node. {_NAMES}"
    return f"{name!r} is reserved: in a reference it does not mean a node. Choose another name." if name in RESERVED else None


def _flaws(node: AnyNode) -> _Flaws:
    if (flaw := name_flaw(node.name)) is not None:
        yield flaw, "name"
    yield from _many(node.after, "after", MAX_NODES)
    for at, edge in enumerate(node.after):
        if not _NAME.fullmatch(edge.node) or (edge.label is not None and not _NAME.fullmatch(edge.label)):
            yield f"{edge.label if _NAME.fullmatch(edge.node) else edge.node!r:.80} is not a name. {_NAMES}", f"after[{at}]"
    if node.when is not None:
        yield from _template(node.when.value, "when.value")
        yield from _rules(node.when.rules, "when.rules")
    yield from _many(node.on_failure, "on_failure")
    for code in node.on_failure:
        if code != "*" and not _CODE.fullmatch(code):
            yield f"{code!r:.80} is not an error code. Write `*`, or 1 to 64 letters, digits, _, . or -, with a letter first.", "on_failure"
    yield from _caps(node.caps)
    yield from _OF_KIND[type(node)](node)


def _caps(caps: Caps) -> _Flaws:
    yield from _range(caps.timeout_seconds, 1, MAX_SECONDS, "caps.timeout_seconds")
    yield from _range(caps.max_tokens, 0, _MOST, "caps.max_tokens")
    if caps.max_cost_usd is not None and not _is_amount(caps.max_cost_usd):
        yield (
            f"{str(caps.max_cost_usd)[:40]} is not an allowed amount in US dollars: 0 to {_MOST}, with at most 12 decimal places.",
            "caps.max_cost_usd",
        )


def _is_amount(cost: Decimal) -> bool:
    exponent = cost.as_tuple().exponent
    return isinstance(exponent, int) and 0 <= cost <= _MOST and (cost == 0 or exponent >= -12)


def _worker(node: WorkerNode) -> _Flaws:
    yield from _worker_id(node.worker, "worker")
    yield from _template(node.inputs, "inputs")
    yield from _safety(node.fallback, node.undo)


def _map(node: MapNode) -> _Flaws:
    yield from _worker_id(node.worker, "worker")
    yield from _template(node.over, "over")
    yield from _template(node.inputs, "inputs", item=True)
    yield from _range(node.at_most, 1, MAX_AT_MOST, "at_most")
    yield from _range(node.at_once, 1, MAX_AT_ONCE, "at_once")
    yield from _range(node.tolerate, 0, 100 if node.tolerate_percent else MAX_AT_MOST, "tolerate")
    yield from _safety(node.fallback, node.undo, item=True)


def _merge(node: MergeNode) -> _Flaws:
    if not node.parts:
        yield "A merge needs at least one part.", "parts"
    yield from _many(node.parts, "parts", MAX_NODES)
    for at, part in enumerate(node.parts):
        if not _NAME.fullmatch(part.source):
            yield f"{part.source!r:.80} is not a name of a part. {_NAMES}", f"parts[{at}].source"
        yield from _template(part.value, f"parts[{at}].value")
    if len({part.source for part in node.parts}) < len(node.parts):
        yield "Two parts have the same `source`. Give each part its own, because a conflict names its parts by their sources.", "parts"
    if (node.policy is None) is (node.worker is None):
        yield "A merge needs either `policy` or `worker`, and not both.", "policy"
    if (node.conflicts == "worker") is (node.resolver is None):
        yield "Give conflicts='worker' and `resolver`, the worker that decides conflicts, together, or neither.", "resolver"
    yield from _worker_id(node.worker, "worker")
    yield from _worker_id(node.resolver, "resolver")
    yield from _text(node.key, "key", 256)


def _gate(node: GateNode) -> _Flaws:
    yield from _template(node.candidate, "candidate")
    yield from _worker_id(node.worker, "worker")
    if node.worker is None and node.schema is None and not node.rules:
        yield "A gate needs a worker, a schema or rules that judge the candidate.", "worker"
    yield from _rules(node.rules, "rules")
    yield from _constant(node.schema, "schema")
    if node.revise is not None and not _NAME.fullmatch(node.revise):
        yield f"{node.revise!r:.80} is not a name of a node.", "revise"
    yield from _range(node.rounds, 0, MAX_ROUNDS, "rounds")


def _human(node: HumanNode) -> _Flaws:
    yield from _template(node.show, "show")
    yield from _text(node.question, "question")
    yield from _approvers(node.approvers, "approvers")
    yield from _range(node.within_seconds, 1, MAX_SECONDS, "within_seconds")
    yield from _constant(node.form, "form")
    yield from _range(node.votes, 1, MAX_VOTES, "votes")
    yield from _then(node)


def _then(node: HumanNode) -> _Flaws:
    yield from _many(node.then, "then", MAX_CHAIN)
    if node.then and not node.approvers:
        yield "`then` adds approvers to those of `approvers`, so `approvers` must name the first ones.", "then"
    before = 0
    for at, part in enumerate(node.then):
        where = f"then[{at}]"
        if not part.approvers:
            yield "This part of the chain names no approvers.", where
        yield from _approvers(part.approvers, f"{where}.approvers")
        if not before < part.after_seconds < node.within_seconds:
            told = "after more than 0 s, later than the part before it, and before the question ends"
            yield (
                f"This part of the chain adds approvers after {str(part.after_seconds)[:40]} s. "
                f"It must add them {told} (after {node.within_seconds} s).",
                where,
            )
        before = part.after_seconds


def _approvers(approvers: tuple[str, ...], where: str) -> _Flaws:
    yield from _many(approvers, where)
    for approver in approvers:
        yield from _text(approver, where, 256)


def _route(node: RouteNode) -> _Flaws:
    yield from _template(node.value, "value")
    yield from _worker_id(node.worker, "worker")
    if not node.labels:
        yield "A route needs at least one label.", "labels"
    yield from _many(node.labels, "labels")
    for label in node.labels:
        if not _NAME.fullmatch(label):
            yield f"{label!r:.80} is not a label. {_NAMES}", "labels"
    yield from _many(node.rules, "rules")
    for label, rules in node.rules.items():
        if label not in node.labels:
            yield f"{label!r:.80} is not one of the labels of the route.", "rules"
        yield from _rules(rules, f"rules.{label:.64}")
    if node.otherwise is not None and node.otherwise not in node.labels:
        yield f"{node.otherwise!r:.80} is not one of the labels of the route.", "otherwise"


def _supervise(node: SuperviseNode) -> _Flaws:
    yield from _worker_id(node.worker, "worker")
    yield from _template(node.inputs, "inputs")
    for name in sorted(SUPERVISED & set(node.inputs)) if isinstance(node.inputs, dict) else ():
        yield f"Holdfast adds an input `{name}` for the supervisor. Give your input another name.", f"inputs.{name}"
    yield from _range(node.turns, 1, MAX_TURNS, "turns")
    if not node.choices:
        yield "A supervisor needs at least one choice.", "choices"
    yield from _many(node.choices, "choices", MAX_CHOICES)
    for label, worker in node.choices.items():
        if not _NAME.fullmatch(label):
            yield f"{label!r:.80} is not a label. {_NAMES}", "choices"
        if label == FINISH:
            yield f"{FINISH!r} is what the supervisor chooses to end the node. Use another label.", "choices"
        yield from _worker_id(worker, f"choices.{label:.64}")
    for label, worker in node.undo.items():
        if label not in node.choices:
            yield f"{label!r:.80} is not one of the labels of `choices`.", "undo"
        yield from _worker_id(worker, f"undo.{label:.64}")


def _until(node: UntilNode) -> _Flaws:
    yield from _worker_id(node.worker, "worker")
    yield from _template(node.inputs, "inputs")
    if not node.rules:
        yield "Rules say when the loop ends: give at least one.", "rules"
    yield from _rules(node.rules, "rules")
    yield from _range(node.at_most, 1, MAX_TIMES, "at_most")
    yield from _range(node.every_seconds, 1, MAX_SECONDS, "every_seconds")


def _step(node: StepNode) -> _Flaws:
    if not _FUNCTION.fullmatch(node.function):
        yield (
            f"{node.function!r:.80} is not a name of a function that a step can call. "
            "Write a letter first, then letters, digits or _, at most 128 characters.",
            "function",
        )
    yield from _template(node.inputs, "inputs")


def _wait(node: WaitNode) -> _Flaws:
    yield from _range(node.seconds, 1, MAX_SECONDS, "seconds")


_OF_KIND: Final[dict[type, Any]] = {
    WorkerNode: _worker,
    PipelineNode: _worker,
    MapNode: _map,
    MergeNode: _merge,
    GateNode: _gate,
    HumanNode: _human,
    RouteNode: _route,
    SuperviseNode: _supervise,
    UntilNode: _until,
    StepNode: _step,
    WaitNode: _wait,
}


def _safety(fallback: tuple[str, ...], undo: Undo | None, *, item: bool = False) -> _Flaws:
    yield from _many(fallback, "fallback", MAX_FALLBACKS)
    for worker in fallback:
        yield from _worker_id(worker, "fallback")
    if undo is not None:
        yield from _worker_id(undo.worker, "undo.worker")
        yield from _template(undo.inputs, "undo.inputs", item=item)


def _worker_id(worker: str | None, where: str) -> _Flaws:
    if worker is not None and not _WORKER.fullmatch(worker):
        yield (
            f"{worker!r:.80} is not the id of a worker. Write `id` or `id@version`. Each has 1 to 64 letters, digits, - or _ "
            "(a version also . and +), with a letter or a digit first.",
            where,
        )


def _template(template: Template, where: str, *, item: bool = False) -> _Flaws:
    yield from ((flaw.what, f"{where}{text_of(flaw.where)}") for flaw in flaws_in(template, item=item))


def _rules(rules: tuple[Rule, ...], where: str) -> _Flaws:
    yield from _many(rules, where)
    for at, rule in enumerate(rules):
        try:
            path_of(rule.path)
        except PipelineInvalid as wrong:
            yield str(wrong), f"{where}[{at}].path"
        yield from _constant(rule.value, f"{where}[{at}].value")
        if not _CODE.fullmatch(rule.code):
            yield (
                f"{rule.code!r:.80} is not a code of a reason. Write 1 to 64 letters, digits, _, . or -, with a letter first.",
                f"{where}[{at}].code",
            )
        yield from _text(rule.message, f"{where}[{at}].message")


def _constant(value: Any, where: str) -> _Flaws:
    if (flaw := constant_flaw(value)) is not None:
        yield flaw, where


def _many(listed: Iterable[Any], where: str, most: int = MAX_LISTED) -> _Flaws:
    if (count := len(tuple(listed))) > most:
        yield f"`{where}` has {count} elements; at most {most} are allowed.", where


def _text(text: str | None, where: str, most: int = MAX_TEXT) -> _Flaws:
    if text is not None and len(text) > most:
        yield f"`{where}` has a text of {len(text)} characters; at most {most} are allowed.", where


def _range(value: int | None, least: int, most: int, where: str) -> _Flaws:
    if value is not None and not least <= value <= most:
        yield f"{where.rpartition('.')[2]} is {str(value)[:40]}; it must be at least {least} and at most {most}.", where
