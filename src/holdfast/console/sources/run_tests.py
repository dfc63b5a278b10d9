"""A run as a test, for one caller: what was asked and answered, without what is secret.

Places that a contract marks as secret are replaced, and so is every other occurrence of their texts. If this console does not know the
contract of the run, the test has placeholders in place of the inputs, and no outputs, answers and decisions. If it does not know the
contract of a child run, placeholders stand for the child's values. In inputs, outputs and answers, texts under names such as `password` are
replaced too, because a durable function has no contract that could mark them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.console.run_as_test import CallbackAnswer, Gave, RecordedRun
from holdfast.console.schema_form import loads
from holdfast.console.sources.contracts import Cleaner, blank, contract_of, same, without_secrets
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.viewer import CallerSource, Viewer
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.contract.redaction import REDACTED, redacted
from holdfast.contract.terms import Contract
from holdfast.model import codec
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import APPROVAL, CANCEL, OPEN, Type
from holdfast.pipelines.run.served_pipeline import PACKAGE
from holdfast.store.seam import Filter
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import approvals_of, decision_of
from holdfast.workers.run_lookup import accepted_in, calls_of, response_of

MOST_CHILDREN: Final = 200
_SECRET_NAME: Final = re.compile(r"passw|secret|token|api_?key|authorization|credential|private_?key|cookie", re.IGNORECASE)
_MOST_DEPTH: Final = 100
_SECRETS_NOTE: Final = "Secrets were taken out: put values for tests in the places of '[redacted]'."
_MOST_MESSAGE: Final = 500
_DIFFERS: Final = "A worker or a function gave different answers to the same question: the test gives the first one each time."
_OUTPUTS_NOTE: Final = "The outputs are not compared, because something was taken out of them."


class RunTestSource(CallerSource):
    """Makes tests of runs that one caller may see."""

    def recorded(self, execution: str) -> RecordedRun:
        """Everything that the test of a run needs. Raises InvalidParameter if the run has not ended. Raises ExecutionNotFound if there is
        no such run, or if the caller may not see it."""
        header = self._viewer.find(execution)
        if header.status is ExecutionStatus.RUNNING:
            raise InvalidParameter("The run is not over yet: a test needs its result. Wait until the run has ended.")
        accepted = accepted_in(self._viewer.store, header)
        day = datetime.fromtimestamp(header.started_at / 1000, UTC).date().isoformat()
        blank = RecordedRun(kind="function", function=header.function, run=header.id, day=day)
        return self._function(header, blank) if accepted is None else self._run(header, accepted, blank)

    # --- runs

    def _run(self, header: Execution, accepted: AcceptedRequest, blank: RecordedRun) -> RecordedRun:
        viewer, is_pipeline = self._viewer, accepted.package.startswith(PACKAGE)
        contract, response = contract_of(viewer, header, accepted), response_of(viewer.store, header, accepted)
        cleaner, given = Veil(viewer, header), accepted.request.inputs
        inputs = _unnamed(cleaner.value(without_secrets(given, contract))) if contract is not None else _shape(given)
        outputs, whole = self._outputs(response, contract, cleaner)
        notes = [] if contract is not None and same(inputs, given) else [_SECRETS_NOTE if contract is not None else _NO_CONTRACT]
        notes += [] if whole or response.status is not ResponseStatus.OK else [_OUTPUTS_NOTE]
        left = _LeftOut()
        workers = self._answers(header, cleaner, left) if is_pipeline and contract is not None else {}
        tools = {} if is_pipeline or contract is None else self._tools(header, accepted, cleaner, left)
        decisions = self._decisions(header, cleaner, left) if contract is not None else {}
        notes += [] if contract is None else left.notes(_SECRETS_NOTE in notes, workers, tools, decisions)
        return msgspec.structs.replace(
            blank,
            kind="pipeline" if is_pipeline else "worker",
            file=f"{header.function.replace('-', '_')}.py",
            inputs=inputs,
            workers=workers,
            tools=tools,
            decisions=decisions,
            status=response.status.value,
            outputs=outputs,
            compares=whole,
            error=None if response.error is None else response.error.error_code,
            notes=tuple(notes),
        )

    def _outputs(self, response: Response, contract: Contract | None, cleaner: Veil) -> tuple[Any, bool]:
        """The outputs without secrets; and True if they had no secret, so that nothing was taken out. (None, False) if the contract is not
        known."""
        if contract is None:
            return None, False
        outputs = msgspec.to_builtins(response.outputs)
        clean = _unnamed(cleaner.value(redacted(outputs, contract.output_schema)))
        return clean, same(clean, outputs)

    def _answers(self, header: Execution, cleaner: Veil, left: _LeftOut) -> dict[str, list[Gave]]:
        """The inputs and the answers of the runs that a pipeline's run asked for, by worker id. At most MOST_CHILDREN runs; if there are
        more, `left` notes it."""
        found: dict[str, list[Gave]] = {}
        for number, (child, accepted) in enumerate(self._children(header, left)):
            if number >= MOST_CHILDREN:
                left.more_runs = True
                break
            gave = self._gave(child, accepted, cleaner)
            found.setdefault(child.function, []).append(gave)
        return found

    def _gave(self, child: Execution, accepted: AcceptedRequest, above: Veil) -> Gave:
        """What a child run was asked, and what it answered, without its own secrets and without those of the run that asked for it
        (`above`). If the contract of the child run is not known, placeholders stand for all its values."""
        contract, response = contract_of(self._viewer, child, accepted), response_of(self._viewer.store, child, accepted)
        own = Cleaner(accepted.request.inputs, contract)
        given = _unnamed(above.value(own.value(without_secrets(accepted.request.inputs, contract))))
        if response.error is None:
            value = msgspec.to_builtins(response.outputs)
            value = blank(value) if contract is None else redacted(value, contract.output_schema)
            return Gave(given=given, value=_unnamed(above.value(own.value(value))))
        message = REDACTED if contract is None else _cut(above.text(own.text(response.error.message)))
        return Gave(given=given, error=response.error.error_code, message=message)

    def _children(self, header: Execution, left: _LeftOut) -> Iterator[tuple[Execution, AcceptedRequest]]:
        """The runs that this run asked for, by itself or through the shards of its maps, if they have a response. Of each run and each
        shard, only the first MOST_CHILDREN child executions are looked at. Runs that the child runs asked for are not among them."""
        for child in _all(self._viewer, header.id, left):
            accepted = accepted_in(self._viewer.store, child)
            if accepted is None or child.status is not ExecutionStatus.SUCCEEDED:
                left.unanswered += 1
                continue
            if accepted.is_shard:
                yield from self._children(child, left)
            else:
                yield child, accepted

    def _tools(self, header: Execution, accepted: AcceptedRequest, cleaner: Veil, left: _LeftOut) -> dict[str, list[Gave]]:
        found: dict[str, list[Gave]] = {}
        calls = calls_of(self._viewer.store, header, accepted)
        left.more_calls = len(calls) > MOST_CHILDREN
        for made in calls[:MOST_CHILDREN]:
            if made.receipt is None or made.receipt.void:
                left.calls += 1
                continue
            error = made.receipt.error
            if error is None:
                gave = Gave(value=_unnamed(cleaner.value(made.receipt.result)))
            else:
                gave = Gave(error=error.error_code, message=_cut(cleaner.text(error.message)))
            found.setdefault(made.intent.tool, []).append(gave)
        return found

    def _decisions(self, header: Execution, cleaner: Veil, left: _LeftOut) -> dict[str, list[Any]]:
        """What people decided in this run. The key is the name of the node that asked; if no node asked, the question, or else the tool."""
        found: dict[str, list[Any]] = {}
        for approval, callback, _ in approvals_of(header, self._viewer.store.operations(header.id)):
            decision = None if callback.status in OPEN else decision_of(callback)
            if decision is None:
                left.undecided += 1
                continue
            said: dict[str, Any] = {"verdict": decision.verdict}
            said |= {} if decision.edited_arguments is None else {"edited_arguments": cleaner.value(decision.edited_arguments)}
            said |= {} if decision.result is None else {"result": cleaner.value(msgspec.to_builtins(decision.result))}
            key = approval.node or approval.question or approval.tool
            found.setdefault(cleaner.text(key), []).append(said["verdict"] if len(said) == 1 else said)
        return found

    # --- executions

    def _function(self, header: Execution, blank: RecordedRun) -> RecordedRun:
        store, veil = self._viewer.store, Veil(self._viewer, header)
        given = _value(store.history(header.id, 0, 1)[0].event.payload)
        inputs, ended_well = _unnamed(veil.value(given)), header.status is ExecutionStatus.SUCCEEDED
        result = _value(store.result(header)) if ended_well else None
        outputs = _unnamed(veil.value(result))
        failure = None if ended_well else codec.failure_from(store.result(header) or "{}")
        notes = [] if same(inputs, given) else [_SECRETS_NOTE]
        notes += [] if same(outputs, result) else [_OUTPUTS_NOTE]
        left = _LeftOut()
        workers, functions = self._invoked(header, veil, left)
        callbacks = tuple(self._callbacks(header, veil))
        notes += left.notes(_SECRETS_NOTE in notes, workers, functions, callbacks)
        hosted = None if self._viewer.served is None else self._viewer.served.function(header.function)
        handler = None if hosted is None else hosted.handler
        return msgspec.structs.replace(
            blank,
            module=str(getattr(handler, "__module__", None) or "your_module"),
            attribute=str(getattr(handler, "__name__", "")),
            inputs=inputs,
            workers=workers,
            functions=functions,
            callbacks=callbacks,
            status=header.status.value,
            outputs=outputs,
            compares=same(outputs, result),
            error=None if failure is None else failure.type or "",
            notes=(*notes, "The test runs the real code of the steps: replace what a step calls if a test must not call it."),
        )

    def _callbacks(self, header: Execution, veil: Veil) -> Iterable[CallbackAnswer]:
        for op in self._viewer.store.operations(header.id):
            if op.type is Type.CALLBACK and op.status not in OPEN and op.sub_type not in (APPROVAL, CANCEL):
                text = None if op.result is None else veil.text(_text(op.result))
                error = None if op.error is None else veil.text(op.error.message or "failed")
                yield CallbackAnswer(name=op.name, text=text, error=error)

    def _invoked(self, header: Execution, veil: Veil, left: _LeftOut) -> tuple[dict[str, list[Gave]], dict[str, list[Gave]]]:
        """The answers of the workers that the execution called, by worker id, and the answers of the functions that it called, by name.
        Only the first MOST_CHILDREN child executions are looked at; if there are more, `left` notes it. Of those, only executions with the
        status SUCCEEDED have an answer; `left` counts the others. The answer of a worker's run that failed is its error."""
        workers: dict[str, list[Gave]] = {}
        functions: dict[str, list[Gave]] = {}
        store = self._viewer.store
        for child in _all(self._viewer, header.id, left):
            if child.status is not ExecutionStatus.SUCCEEDED:
                left.unanswered += 1
                continue
            accepted = accepted_in(store, child)
            if accepted is None:
                given = _value(store.history(child.id, 0, 1)[0].event.payload)
                gave = Gave(given=_unnamed(veil.value(given)), value=_unnamed(veil.value(_value(store.result(child)))))
                functions.setdefault(child.function, []).append(gave)
                continue
            gave = self._gave(child, accepted, veil)
            workers.setdefault(child.function, []).append(gave)
        return workers, functions


_NO_CONTRACT: Final = "This console does not know the contract, so no value of the run is here: put values for tests in their places."


class _LeftOut:
    """What the test does not have, for the notes at its beginning."""

    def __init__(self) -> None:
        self.more_runs = False
        self.unanswered = 0
        self.unseen = 0
        self.more_calls = False
        self.calls = 0
        self.undecided = 0

    def notes(self, has_note: bool, *answers: Any) -> list[str]:
        """One sentence for each kind of thing that the test does not have, and one if `answers` has different answers to the same question.
        `has_note`: the test says already that secrets were taken out."""
        told = [] if has_note or REDACTED not in repr(answers) else [_SECRETS_NOTE]
        told += [f"The test has only the first {MOST_CHILDREN} runs that this run asked for."] if self.more_runs else []
        told += [_counted(self.unanswered, "run that this run asked for", "has no answer")] if self.unanswered else []
        told += [_counted(self.unseen, "run that this run asked for", "has another tenant")] if self.unseen else []
        told += [f"The test has only the first {MOST_CHILDREN} calls of tools."] if self.more_calls else []
        told += [_counted(self.calls, "call of a tool", "has no answer that counts")] if self.calls else []
        told += [_counted(self.undecided, "question", "has no decision")] if self.undecided else []
        given = (gave for some in answers if isinstance(some, dict) for gave in some.values())
        return [*told, _DIFFERS] if any(map(_differs, given)) else told


def _counted(count: int, what: str, why: str) -> str:
    first, _, rest = what.partition(" ")
    many = f"1 {what} {why}: it is" if count == 1 else f"{count} {first}s {rest}".rstrip() + f" {why.replace('has', 'have')}: they are"
    return f"{many} left out."


def _differs(answers: list[Any]) -> bool:
    """Whether two of these answers are different, but have the same question."""
    asked = [one for one in answers if isinstance(one, Gave) and one.given is not None]
    first: dict[str, Gave] = {}
    return any(first.setdefault(codec.dumps(one.given), one) != one for one in asked)


def _cut(message: str) -> str:
    return message if len(message) <= _MOST_MESSAGE else f"{message[:_MOST_MESSAGE]}…"


def _all(viewer: Viewer, parent: str, left: _LeftOut) -> Iterator[Execution]:
    """The first MOST_CHILDREN executions that this execution asked for, without those that the caller may not see, which `left` counts."""
    found = viewer.store.list(Filter(parent=parent, oldest_first=True, limit=MOST_CHILDREN + 1))
    left.more_runs |= len(found) > MOST_CHILDREN
    seen = [one for one in found[:MOST_CHILDREN] if viewer.may_see(one)]
    left.unseen += len(found[:MOST_CHILDREN]) - len(seen)
    return iter(seen)


def _value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return loads(text)
    except ValueError:
        return text


def _text(text: str) -> str:
    """The text with which a callback was answered, with a placeholder for each text under a name such as `password`."""
    value = _value(text)
    clean = _unnamed(value)
    return text if isinstance(value, str) or same(clean, value) else codec.dumps(clean)


def _unnamed(value: Any, depth: int = 0) -> Any:
    """The same value, with a placeholder for each text under a name such as `password`."""
    if depth > _MOST_DEPTH:
        return REDACTED
    if isinstance(value, dict):
        return {
            name: REDACTED if isinstance(one, str) and _SECRET_NAME.search(str(name)) else _unnamed(one, depth + 1)
            for name, one in value.items()
        }
    return [_unnamed(one, depth + 1) for one in value] if isinstance(value, list | tuple) else value


def _shape(value: Any, depth: int = 0) -> Any:
    """A value of the same shape, with a placeholder in place of every text, and 0 in place of every number. A list keeps only its first
    element."""
    if isinstance(value, dict) and depth < _MOST_DEPTH:
        return {name: _shape(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list) and depth < _MOST_DEPTH:
        return [_shape(one, depth + 1) for one in value[:1]]
    if isinstance(value, bool) or value is None:
        return value
    return 0 if isinstance(value, int | float) else REDACTED
