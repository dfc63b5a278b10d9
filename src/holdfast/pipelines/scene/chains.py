"""Escalation chains: if a question stays open too long, the run adds approvers to the same question.

Each part of a chain has a timer, which begins with the question. Waiting holds no process. What a part adds is recorded once. A group in
it is recorded as the members that the group has at that time.
"""

from __future__ import annotations

import msgspec

from holdfast.durable.journal import started, succeeded
from holdfast.model.operations import OPEN, Action
from holdfast.pipelines.graph.graph import Then
from holdfast.pipelines.record.operations import question_at, wait_at
from holdfast.pipelines.scene.scene import Scene
from holdfast.workers.approvals import AskKind
from holdfast.workers.ballots import Added, added_at
from holdfast.workers.demands import members_in

_TIMER = "then"


def keep_chain(scene: Scene, kind: AskKind, part: str, chain: tuple[Then, ...]) -> None:
    """For a question that is open: start the timer of each part of the chain that has none, and add the approvers of each part whose timer
    has ended. `kind` and `part` name the question inside the node."""
    place, node = question_at(kind, scene.position, part), scene.node.name
    question = place.callback.operation_id
    for number, then in enumerate(chain, 1):
        added, timer = added_at(question, number, node), wait_at(scene.position, _TIMER, number)
        if scene.records.find(added) is not None:
            continue
        known = scene.records.find(timer)
        if known is None:
            scene.begin(started(timer, wait_seconds=then.after_seconds))
        if known is None or known.status in OPEN:
            scene.awaits(timer)
            continue
        groups = members_in(scene.run_state.service.policy, then.approvers)
        more = Added(question=question, number=number, approvers=then.approvers, groups=groups)
        scene.records.add_approvers(place, kind, node, succeeded(added, msgspec.json.encode(more).decode()))


def end_chain(scene: Scene, chain: tuple[Then, ...]) -> None:
    """Cancel the open timers of a chain, because the question is not open any more."""
    for number, _ in enumerate(chain, 1):
        timer = wait_at(scene.position, _TIMER, number)
        known = scene.records.find(timer)
        if known is not None and known.status in OPEN:
            scene.records.note(timer.update(Action.CANCEL, if_open=True))
