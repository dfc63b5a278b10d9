"""The errors of a replay whose code asks for other operations than the history has: what is recorded, what the code asks for, and what the
operator can do. The callers compare (`Identity.check`, nesting, annotations); this file has only the errors."""

from __future__ import annotations

from holdfast.durable.author_lines import author_line
from holdfast.durable.exceptions import NonDeterministicExecutionError


def other_operation(recorded: str, asked_for: str, operation_id: str) -> NonDeterministicExecutionError:
    """The code asks for another operation than the recorded one. Both texts name the operation, such as `Step 'charge'`."""
    return _mismatch(
        f"Recorded here: {recorded}. The code asks for: {asked_for}, "
        f"at {author_line()}. Operations must come in the same order every time: keep this order for executions that are under way "
        f"and give the changed function a new version, or put the change behind context.patched(), or stop this execution and start it "
        f"anew. (operation {operation_id})",
        operation_id,
    )


def other_nesting(problem: str, setting: str, operation_id: str) -> NonDeterministicExecutionError:
    """The code records a context in another way than when the execution began. `problem` says what is recorded and what the code asks for;
    `setting` names what the author must set back."""
    return _mismatch(f"{problem}. Use the {setting} that the code had when the execution began.", operation_id)


def other_annotation(what: str, problem: object, operation_id: str) -> NonDeterministicExecutionError:
    """A recorded value does not fit the annotation that the code has now. `what` names the value; `problem` says what does not fit."""
    return _mismatch(
        f"{what} was recorded, and it does not fit the annotation that the code "
        f"has now: {problem}. Give new fields a default. If this code changed, run this execution with the code that began it. If an "
        f"invoked function returned the value, correct that function or the annotation of its result.",
        operation_id,
    )


def _mismatch(text: str, operation_id: str) -> NonDeterministicExecutionError:
    return NonDeterministicExecutionError(f"The code no longer matches this execution's history. {text}", step_id=operation_id)
