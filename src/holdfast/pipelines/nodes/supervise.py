"""A supervise node lets a worker, the supervisor, choose which worker runs next, until it finishes.

Mistakes of the supervisor fail the node: an answer of a wrong form, an unknown label, inputs that do not fit, a last turn without `finish`.
If the run of a chosen worker fails, the supervisor gets the error in its next turn, and may choose another worker. But the node fails if
the run was refused, ended without a response, was cancelled, or exceeded a budget (`_ends`). Nothing is kept in memory: each call of
`advance` reads what happened from the operations of the run.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.durable.journal import succeeded
from holdfast.pipelines.graph.graph import FINISH, SuperviseNode, parted
from holdfast.pipelines.record.choices import SupervisorChoice, Taken, answer_of, choice_at, choice_text
from holdfast.pipelines.record.operations import NodePosition
from holdfast.pipelines.record.responses import was_refused
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.record.undo_tries import note_undo_try
from holdfast.pipelines.scene.failure import MOST_TRIES, ended, ran
from holdfast.pipelines.scene.scene import CannotRun, Scene

INVALID: Final = "supervise_invalid_answer"
_ENDING: Final = frozenset({"cancelled", "budget_exceeded"})
"""After these errors of a chosen worker the node fails, and the supervisor is not asked again."""
_MOST_TOLD: Final = 100
"""The supervisor gets at most this many of its earlier choices, the last ones."""
_MOST_OUTPUTS: Final = 16 * 1024
"""If a chosen worker's outputs have more bytes than this, the supervisor gets references to artifacts in place of their largest members."""
_MOST_TEXT: Final = 1000


async def advance(node: SuperviseNode, scene: Scene) -> NodeProgress:
    """Ask the supervisor, run the worker that it chose, and ask again. The node ends with the outputs that the supervisor gives when it
    finishes."""
    before = [one for number in range(1, scene.position.try_number) for one in _taken(node, scene, number)]
    here = _taken(node, scene, scene.position.try_number)
    while True:
        number = len(here) + 1
        told = [*before, *here]
        given = partial(_given, node, scene, told, node.turns - len(here))
        last = await ran(scene, (node.worker,), given, part=f"ask-{number}", template=node.inputs)
        if last is None:
            return None
        if last.response.status is not ResponseStatus.OK:
            return await _failed(scene, error_of(last.response), told)
        answer = answer_of(last.response.outputs)
        if isinstance(answer, SupervisorChoice) and scene.records.find(at := choice_at(scene.position, number)) is None:
            scene.records.note(succeeded(at, choice_text(number, answer)))
        if isinstance(answer, str):
            return await _failed(scene, _error(node, INVALID, f"gave no valid choice in turn {number}: {answer}"), told)
        if (mistake := _mistake(node, number, answer.choice)) is not None:
            return await _failed(scene, mistake, told)
        if answer.choice == FINISH:
            return await _finished(node, scene, answer, told)
        response = await _run(node, scene, number, answer)
        if response is None:
            return None
        if _ends(response):
            return await _failed(scene, error_of(response), told)
        here.append(Taken(answer, response))


def _mistake(node: SuperviseNode, number: int, choice: str) -> NodeError | None:
    """The error if the supervisor may not make this choice in its turn `number`; None if it may."""
    if choice == FINISH:
        return None
    if choice not in node.choices:
        labels = ", ".join(node.choices)
        return _error(node, "supervise_unknown_choice", f"chose {choice!r:.100} in turn {number}; the choices are {labels} and {FINISH}")
    if number == node.turns:
        return _error(node, "supervise_turns", f"chose {choice} in its last turn, turn {node.turns}, and not {FINISH}")
    return None


def _error(node: SuperviseNode, code: str, what: str) -> NodeError:
    return NodeError(code=code, message=f"The supervisor of {node.name} {what}.")


def _ends(response: Response) -> bool:
    """Whether the node fails with this response of a chosen worker: the response has no run id (the request was refused, or the run ended
    without a response), or its error is `cancelled` or `budget_exceeded`. After every other response the supervisor is asked again."""
    return was_refused(response) or (response.error is not None and response.error.error_code in _ENDING)


def _taken(node: SuperviseNode, scene: Scene, try_number: int) -> list[Taken]:
    """The choices that the supervisor made in one try of the node and whose runs have ended, each with the response of the chosen
    worker. A choice that fails the node is left out."""
    operations = scene.records.by_id
    position, found = NodePosition(node.name, scene.position.round, try_number), list[Taken]()
    while len(found) < node.turns - 1:
        number = len(found) + 1
        asked = ended(operations, position, f"ask-{number}", (node.worker,))
        answer = answer_of(asked.outputs) if asked is not None and asked.status is ResponseStatus.OK else ""
        if not isinstance(answer, SupervisorChoice) or answer.choice not in node.choices:
            break
        response = ended(operations, position, f"choice-{number}", (node.choices[answer.choice],))
        if response is None or _ends(response):
            break
        found.append(Taken(answer, response))
    return found


async def _run(node: SuperviseNode, scene: Scene, number: int, answer: SupervisorChoice) -> Response | None:
    """Run the worker that was chosen in the turn `number`. Returns its response, or None while it runs. If its inputs do not fit its
    contract, the response has the error `edge_mismatch`, which says where the inputs came from."""
    template = node.inputs if answer.inputs is None else {"$from": f"turn-{number}", "path": ["inputs"]}
    worker, inputs = node.choices[answer.choice], partial(_inputs, node, scene, answer)
    last = await ran(scene, (worker,), inputs, part=f"choice-{number}", template=template)
    return None if last is None else last.response


async def _inputs(node: SuperviseNode, scene: Scene, answer: SupervisorChoice) -> dict[str, Any]:
    """The inputs of the chosen worker: those that the supervisor gave, else the inputs of the node."""
    if answer.inputs is None:
        return await scene.inputs(node.inputs)
    return await _object(node, scene, answer.inputs, "inputs")


async def _object(node: SuperviseNode, scene: Scene, given: Any, what: str) -> dict[str, Any]:
    """The object that a supervisor gave, directly or in an artifact. Raises CannotRun if it is not an object. `what` names it in the
    error."""
    values = scene.run_state.values
    found = await values.opened(given)
    if not isinstance(found, dict):
        raise CannotRun(_error(node, INVALID, f"gave {what} that are not an object"))
    return values.named_again(found)


async def _given(node: SuperviseNode, scene: Scene, told: list[Taken], turns_left: int) -> dict[str, Any]:
    """The inputs of the supervisor: those of the node, and `choices`, `so_far` and `turns_left`. `told` are its earlier choices.
    check/inputs.py uses the same names."""
    inputs = await scene.inputs(node.inputs)
    choices = [{"label": label, "worker": worker, "purpose": _purpose(scene, worker)} for label, worker in node.choices.items()]
    first = max(0, len(told) - _MOST_TOLD)
    so_far = [await _told(scene, first + place, one) for place, one in enumerate(told[first:], 1)]
    return {**inputs, "choices": choices, "so_far": so_far, "turns_left": turns_left}


def _purpose(scene: Scene, worker: str) -> str:
    contract = scene.run_state.service.contract(*parted(worker))
    return "" if contract is None else contract.purpose[:_MOST_TEXT]


async def _told(scene: Scene, turn: int, one: Taken) -> dict[str, Any]:
    """One earlier choice as the supervisor gets it; `turn` is its number among the choices of all tries, from 1. It has no id of a run, so
    that a replayed or restarted run gives the supervisor the same text."""
    entry = {"turn": turn, "choice": one.answer.choice, "reason": one.answer.reason, "status": one.response.status.value}
    if one.response.error is not None:
        return {**entry, "error": {"error_code": one.response.error.error_code, "message": one.response.error.message[:_MOST_TEXT]}}
    return {**entry, "outputs": await scene.run_state.values.told(one.response.outputs or {}, _MOST_OUTPUTS)}


def _document(told: list[Taken], last: SupervisorChoice | None = None) -> dict[str, Any]:
    """The node's result without its outputs: the choices in `told`, each with the id of the run of the chosen worker, and then `last`, the
    answer that finished the node (None: it did not finish)."""
    made = [(one.answer, one.response.status.value, one.response.run_id) for one in told]
    if last is not None:
        made.append((last, ResponseStatus.OK.value, ""))
    rows = [
        {"turn": turn, "choice": answer.choice, "reason": answer.reason, "status": status, "run_id": run_id or None}
        for turn, (answer, status, run_id) in enumerate(made, 1)
    ]
    return {"turns": len(rows), "choices": rows}


async def _finished(node: SuperviseNode, scene: Scene, answer: SupervisorChoice, told: list[Taken]) -> Settled:
    outputs = await _object(node, scene, answer.outputs, "outputs")
    return Settled(state="ok", document=await scene.kept({**_document(told, answer), "outputs": outputs}))


async def _failed(scene: Scene, error: NodeError, told: list[Taken]) -> NodeFailure:
    return NodeFailure(error, document=await scene.kept(_document(told)))


# --- undo


def effects(node: SuperviseNode, scene: Scene) -> list[Taken]:
    """The choices to undo, from all tries of the node in this round, in the order in which they were made: the chosen worker's run
    succeeded, and the label has an undo. A choice whose result a restart took from an earlier, successful run is left out."""
    found: list[Taken] = []
    for try_number in range(1, MOST_TRIES + 1):
        found += [
            one for one in _taken(node, scene, try_number) if one.response.status is ResponseStatus.OK and one.answer.choice in node.undo
        ]
    forerunners = scene.run_state.forerunners
    kept = scene.run_state.kept_runs | (scene.records.reused_runs if forerunners is not None and forerunners.keeps else set())
    return [one for one in found if one.response.run_id not in kept]


async def undo(node: SuperviseNode, scene: Scene) -> NodeError | bool | None:
    """Undo the choices whose runs succeeded and whose labels have an undo (`effects`), one after the other, the last one first. A later try
    undoes only the choices that the try before could not undo. Returns True if all are undone, an error if not, and None while an undo
    runs."""
    done, left, undone = effects(node, scene), list[str](), list[str]()
    for place in range(len(done), 0, -1):
        response = await _undone(node, scene, place, done[place - 1])
        if response is None:
            return None
        if response.status is ResponseStatus.OK:
            undone.append(done[place - 1].response.run_id)
        else:
            left.append(f"{done[place - 1].answer.choice}: {error_of(response).message}")
    if not left:
        return True
    note_undo_try(scene.records, scene.position, runs=undone)
    message = f"{len(left)} choices of {node.name} could not be undone. {left[0]}"
    return NodeError(code="undo_failed", message=message, details=left)


async def _undone(node: SuperviseNode, scene: Scene, place: int, one: Taken) -> Response | None:
    """Undo one choice, unless an earlier try has undone it. `place` is its number among the choices to undo, from 1. Returns the response
    of the try that succeeded, or of the newest try if all failed. None while the undo runs."""
    worker, inputs, try_number = node.undo[one.answer.choice], partial(_undo_inputs, node, scene, one), 0
    while True:
        try_number += 1
        last = await ran(scene.in_try(try_number), (worker,), inputs, part=f"undo-{place}")
        if last is None or last.response.status is ResponseStatus.OK or try_number == scene.position.try_number:
            return None if last is None else last.response


async def _undo_inputs(node: SuperviseNode, scene: Scene, one: Taken) -> dict[str, Any]:
    return {"inputs": await _inputs(node, scene, one.answer), "outputs": one.response.outputs}
