"""The nodes of a run with their states, read from the run's operations: for people, the console and `runs show`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import OPEN, RUN, Operation, Type
from holdfast.pipelines.graph.graph import AnyNode, Graph, SuperviseNode, UntilNode, kind_of
from holdfast.pipelines.graph.structure import Structure
from holdfast.pipelines.record.choices import told_choice
from holdfast.pipelines.record.notes import note_of
from holdfast.pipelines.record.operations import REUSED, node_at, undone_at
from holdfast.pipelines.record.results import Settled, settled_of
from holdfast.workers.approvals import waiting
from holdfast.workers.run_operations import CHOICE

_REUSED = "reused from an earlier run"


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one node of a run, in one round."""

    node: str
    kind: str
    state: str
    """The state: waiting, running, ok, partial, skipped, blocked, failed or undone. A node that has not ended and waits for a person is
    waiting. If the run has ended, a node that never began is skipped."""
    round: int = 1
    waits_for: tuple[str, ...] = ()
    """What the node waits for: the names of nodes that have not ended, or the ids of open approvals."""
    error_code: str | None = None
    message: str | None = None
    """Why the node ended in this state, a note about its result, the progress of a running node, or why a gate wants nodes to run again."""
    began_at: int | None = None
    """In milliseconds since 1970; None if the node has neither begun nor ended, and for an undo (`node_history`)."""
    ended_at: int | None = None
    """In milliseconds since 1970; None if the node has not ended."""
    reused: bool = False
    """Whether the node ended, and all its work was taken from earlier runs that this run restarts."""


def node_states(graph: Graph, structure: Structure, header: Execution, operations: Sequence[Operation]) -> list[NodeStatus]:
    """The state of every node of a run, each in the node's present round, in the order of the graph."""
    reading = _Reading(structure, header, operations)
    return [reading.node_status(node) for node in graph.nodes]


def node_history(graph: Graph, structure: Structure, header: Execution, operations: Sequence[Operation]) -> list[NodeStatus]:
    """One entry for each end of a node in each round, and one for each undo, in the order in which they were recorded."""
    return _Reading(structure, header, operations).history(graph)


class _Reading:
    def __init__(self, structure: Structure, header: Execution, operations: Sequence[Operation]) -> None:
        self._structure = structure
        self._is_over = header.status is not ExecutionStatus.RUNNING
        self._operations = {operation.id: operation for operation in operations}
        self._questions: dict[str, list[str]] = {}
        for approval in [] if self._is_over else waiting(header, operations):
            self._questions.setdefault(approval.node or "", []).append(approval.approval_id)

    def history(self, graph: Graph) -> list[NodeStatus]:
        found: list[tuple[tuple[int, int], NodeStatus]] = []
        for place, node in enumerate(graph.nodes):
            for round in range(1, self._round(node.name) + 1):
                about: dict[str, Any] = {"node": node.name, "kind": kind_of(node), "round": round}
                ended = self._operations.get(node_at(node.name, round).operation_id)
                settled, undone = self._settled(node.name, round), self._operations.get(undone_at(node.name, round).operation_id)
                if ended is not None and settled is not None:
                    found.append(((ended.revision, place), NodeStatus(**about, **self._told(node, ended, settled), state=settled.state)))
                if undone is not None:
                    found.append(((undone.revision, place), NodeStatus(**about, state="undone", ended_at=undone.ended_at)))
        return [node_status for _, node_status in sorted(found, key=lambda one: one[0])]

    def _told(self, node: AnyNode, ended: Operation, settled: Settled) -> dict[str, Any]:
        """The error code, the message and the times of a node that ended."""
        code, message = (
            (None, settled.why or note_of(settled.document)) if settled.error is None else (settled.error.code, settled.error.message)
        )
        if settled.revise:
            message = f"wants {self._structure.loops[node.name].first} again: {settled.why}"
        return {"error_code": code, "message": message, "began_at": ended.started_at, "ended_at": ended.ended_at}

    def _asked_again(self, node: str, round: int) -> str | None:
        """Why the first node of a loop runs again: the reasons of the gate in the round before. None for every other node, and in the first
        round."""
        loop = self._structure.loops.get(node)
        before = None if loop is None or loop.first != node else self._settled(loop.gate, round - 1)
        return None if loop is None or before is None else f"{loop.gate} wanted it again: {before.why}"

    def _is_reused(self, node: str) -> bool:
        """Whether the node has reused results and no child run of its own."""
        kinds = {op.sub_type for op in self._operations.values() if op.name == node and op.type in (Type.STEP, Type.CHAINED_INVOKE)}
        return REUSED in kinds and RUN not in kinds

    def _settled(self, node: str, round: int) -> Settled | None:
        found = self._operations.get(node_at(node, round).operation_id)
        return None if found is None or found.status in OPEN else settled_of(found)

    def _round(self, node: str) -> int:
        loop, round = self._structure.loops.get(node), 1
        while loop is not None and (settled := self._settled(loop.gate, round)) is not None and settled.revise:
            round += 1
        return round

    def _progress(self, node: AnyNode, context: Operation) -> str | None:
        """The progress of an `until` or supervise node that runs; None for other nodes, and before its first run or choice."""
        sub_type = CHOICE if isinstance(node, SuperviseNode) else RUN
        here = [one for one in self._operations.values() if (one.sub_type, one.name) == (sub_type, node.name)]
        since = sorted((one for one in here if one.revision >= context.revision), key=lambda one: one.revision)
        if isinstance(node, UntilNode) and since:
            return f"run {len(since)} of at most {node.at_most}"
        return told_choice(since[-1]) if isinstance(node, SuperviseNode) and since else None

    def node_status(self, node: AnyNode) -> NodeStatus:
        round = self._round(node.name)
        known, settled = self._operations.get(node_at(node.name, round).operation_id), self._settled(node.name, round)
        about: dict[str, Any] = {"node": node.name, "kind": kind_of(node), "round": round}
        began: dict[str, Any] = {"began_at": None if known is None else known.started_at}
        asked = self._asked_again(node.name, round)
        questions = tuple(self._questions.get(node.name, ()))
        if known is not None and settled is not None:
            undone = undone_at(node.name, round).operation_id in self._operations
            told = self._told(node, known, settled) | ({"reused": True} if self._is_reused(node.name) else {})
            told["message"] = told["message"] or asked or (_REUSED if "reused" in told else None)
            return NodeStatus(**about, **told, state="undone" if undone else settled.state, waits_for=questions)
        if questions:
            return NodeStatus(**about, **began, state="waiting", waits_for=questions)
        if known is not None:
            return NodeStatus(**about, **began, state="running", message=self._progress(node, known) or asked)
        missing = tuple(name for name in self._structure.needs[node.name] if self._settled(name, self._round(name)) is None)
        if self._is_over:
            return NodeStatus(**about, state="skipped", message="The run ended before this node began.")
        return NodeStatus(**about, state="waiting", waits_for=missing)
