"""Compares two runs of a pipeline, node by node: inputs, outputs, verdicts, time and cost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import msgspec

from holdfast.model import codec

MOST_DIFFERENCES: Final = 50
"""A comparison reports at most this many differences between two values, such as the inputs of a node in both runs."""
_MOST_TEXT: Final = 200
_VERDICTS: Final = ("verdict", "label", "decided_by")


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the two runs has for a node."""

    state: str
    round: int = 1
    reused: bool = False
    """Whether all results of the node were taken from earlier runs."""
    verdict: str | None = None
    duration_ms: int | None = None
    cost_usd: Decimal = Decimal(0)
    tokens: int = 0
    runs: tuple[str, ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """One value that differs. `a` and `b` are the values of the two runs as JSON texts, cut if they are long; None if that run has no value
    at this path."""

    path: str
    a: str | None
    b: str | None


class NodeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A node in two runs. If a run does not have the node, its side is None."""

    node: str
    a: Side | None
    b: Side | None
    inputs: tuple[Difference, ...] = ()
    outputs: tuple[Difference, ...] = ()

    @property
    def differs(self) -> tuple[str, ...]:
        """The names of what differs, out of `state`, `verdict`, `inputs` and `outputs`; empty if nothing differs. If one run lacks the
        node: `only in a` or `only in b`."""
        if self.a is None or self.b is None:
            return ("only in a",) if self.b is None else ("only in b",)
        found = {"state": self.a.state != self.b.state, "verdict": self.a.verdict != self.b.verdict}
        found |= {"inputs": bool(self.inputs), "outputs": bool(self.outputs)}
        return tuple(word for word, differs in found.items() if differs)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two runs. `a` and `b` are their ids."""

    a: str
    b: str
    inputs: tuple[Difference, ...] = ()
    """Differences between the inputs of the two runs."""
    outputs: tuple[Difference, ...] = ()
    status: tuple[str, str] = ("", "")
    nodes: tuple[NodeComparison, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the inputs, the outputs, the status, and the state, verdict, inputs and outputs of all nodes are the same. Time, cost,
        tokens, rounds, ids of runs and what was reused may differ."""
        changed = self.inputs or self.outputs or self.status[0] != self.status[1]
        return not changed and not any(one.differs for one in self.nodes)

    def document(self) -> dict[str, Any]:
        """The comparison as JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        for told, node in zip(document["nodes"], self.nodes, strict=True):
            told["differs"] = list(node.differs)
            for side in filter(None, (told["a"], told["b"])):
                side["cost_usd"] = float(side["cost_usd"])
        return document | {"same": self.is_same}


class NodePicture(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a node of one run before the comparison: its side, its inputs, and its result document."""

    side: Side
    inputs: Any = None
    document: Mapping[str, Any] | None = None


def verdict_in(document: Mapping[str, Any] | None) -> str | None:
    """The verdict of a gate, the label of a route, or the decision of a person and the person's name, as one text; None if there is
    none."""
    told = [str(document[name]) for name in _VERDICTS if isinstance(document.get(name), str)] if document is not None else []
    return ", ".join(told) or None


def compared(a: Mapping[str, NodePicture], b: Mapping[str, NodePicture]) -> tuple[NodeComparison, ...]:
    """Compare the nodes of both runs, in the order of run `b`; nodes that only run `a` has come last."""
    return tuple(_compared(name, a.get(name), b.get(name)) for name in dict.fromkeys([*b, *a]))


def _compared(name: str, a: NodePicture | None, b: NodePicture | None) -> NodeComparison:
    if a is None or b is None:
        return NodeComparison(node=name, a=None if a is None else a.side, b=None if b is None else b.side)
    return NodeComparison(
        node=name,
        a=a.side,
        b=b.side,
        inputs=differences(a.inputs, b.inputs),
        outputs=differences(_outputs(a.document), _outputs(b.document)),
    )


def _outputs(document: Mapping[str, Any] | None) -> Any:
    """The result document of a node without its verdict, which is compared on its own, and without every field `run_id`, because two runs
    have different ids."""
    return None if document is None else _without_ids({name: value for name, value in document.items() if name not in _VERDICTS})


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_ids(one) for name, one in value.items() if name != "run_id"}
    return [_without_ids(one) for one in value] if isinstance(value, list) else value


def differences(a: Any, b: Any) -> tuple[Difference, ...]:
    """Where two JSON values differ: the innermost places, at most MOST_DIFFERENCES of them."""
    return tuple(islice(_differences("", a, b), MOST_DIFFERENCES))


_MISSING: Final = object()


def _differences(path: str, a: Any, b: Any) -> Iterator[Difference]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys([*a, *b]):
            yield from _differences(f"{path}.{name}" if path else str(name), a.get(name, _MISSING), b.get(name, _MISSING))
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            inner = [side[index] if index < len(side) else _MISSING for side in (a, b)]
            yield from _differences(f"{path}[{index}]", *inner)
    elif _text(a) != _text(b):
        yield Difference(path or "(all of it)", _short(a), _short(b))


def _text(value: Any) -> str | None:
    return None if value is _MISSING else codec.dumps(value)


def _short(value: Any) -> str | None:
    text = _text(value)
    return text if text is None or len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
