"""The verdicts of a gate beside the decisions of people: how often the gate passed or held something back, and what the person who was
asked afterwards decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import OPEN, Operation, Type
from holdfast.pipelines.graph.graph import GateNode, Graph
from holdfast.pipelines.record.results import settled_of
from holdfast.store.seam import ExecutionStore
from holdfast.workers.approvals import Approval, approvals_of
from holdfast.workers.run_operations import NODE

VERDICTS: Final = ("allow", "revise", "block")
DECISIONS: Final = ("approved", "edited", "answered", "rejected", "undecided", "no person asked")
_WORDS: Final = {"approve": "approved", "reject": "rejected", "answer": "answered"}
_MOST_OPERATIONS: Final = 5_000
"""The verdicts in a run with more operations are not counted."""
_MOST_TOGETHER: Final = 20_000
_MOST_CHARACTERS: Final = 32 * 1024 * 1024


class GateVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """How often one gate gave each verdict, in the runs that were read."""

    gate: str
    shadow: bool
    """Whether the gate is only tried out: its verdicts are recorded, but the run continues whatever the verdict is."""
    counts: dict[str, dict[str, int]]
    """How often each verdict was given, by verdict and then by what followed: one of DECISIONS."""

    @property
    def judged(self) -> int:
        """How many verdicts were counted in all."""
        return sum(sum(one.values()) for one in self.counts.values())

    def of(self, verdict: str) -> int:
        """How often the gate gave this verdict."""
        return sum(self.counts.get(verdict, {}).values())

    def cell(self, verdict: str, decision: str) -> int:
        """How often this verdict was followed by this decision of a person, or by `undecided` or `no person asked`."""
        return self.counts.get(verdict, {}).get(decision, 0)

    @property
    def against(self) -> int:
        """How often a person disagreed with the gate: rejected or edited what it had allowed, or approved what it had blocked."""
        return self.cell("allow", "rejected") + self.cell("allow", "edited") + self.cell("block", "approved")


def few_enough(runs: Iterable[Execution]) -> list[Execution]:
    """The runs whose verdicts are read for one page. A run with very many operations is left out. The list ends before the first run with
    which the whole list would have too many operations or characters."""
    found, operations, characters = [], 0, 0
    for header in runs:
        if header.operations > _MOST_OPERATIONS:
            continue
        operations, characters = operations + header.operations, characters + header.stored
        if operations > _MOST_TOGETHER or characters > _MOST_CHARACTERS:
            break
        found.append(header)
    return found


def gate_verdicts(store: ExecutionStore, graph: Graph, runs: Iterable[Execution]) -> Sequence[GateVerdicts]:
    """The verdicts of each gate of a graph in these runs. Each round of a gate that ended with a verdict is counted."""
    gates = {node.name: node for node in graph.nodes if isinstance(node, GateNode)}
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in gates}
    for header in runs if gates else ():
        operations = store.operations(header.id)
        asked = [approval for approval, _, _ in approvals_of(header, operations)]
        for op in operations:
            verdict = _verdict(op) if op.name in gates else None
            if verdict is not None and op.name is not None:
                found = counts[op.name].setdefault(verdict, {})
                decided = _decided(op, operations, asked)
                found[decided] = found.get(decided, 0) + 1
    return [GateVerdicts(gate=name, shadow=gates[name].shadow, counts=found) for name, found in counts.items()]


def _verdict(op: Operation) -> str | None:
    """The verdict of a gate in one round. None if the operation is not a round of a gate, has not ended, or ended without a verdict: the
    gate was skipped, or its worker failed."""
    if op.sub_type != NODE or op.type is not Type.CONTEXT or op.status in OPEN:
        return None
    settled = settled_of(op)
    document: Any = settled.document if settled.document is not None else None if settled.error is None else settled.error.details
    verdict = document.get("verdict") if isinstance(document, dict) else None
    return verdict if verdict in VERDICTS else None


def _decided(gate: Operation, operations: Sequence[Operation], asked: Sequence[Approval]) -> str:
    """What a person decided after one round of a gate, as one of DECISIONS. It is the decision of the first approval that the gate itself
    requested in this round, or that any node requested after it; but not after the gate's next round began. `no person asked` if there is
    no such approval."""
    later = [op.started_at for op in operations if op.name == gate.name and op.sub_type == NODE and op.place > gate.place]
    until = min(later, default=None)
    for approval in asked:
        own = approval.node == gate.name and approval.requested_at >= (gate.started_at or 0)
        after = own or approval.requested_at >= (gate.ended_at or 0)
        if after and (until is None or approval.requested_at <= until):
            if approval.edited_arguments is not None:
                return "edited"
            return _WORDS.get(approval.state, "undecided")
    return "no person asked"
