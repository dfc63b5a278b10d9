"""What the page of a run never shows: the places of its inputs that its contract marks as secret, wherever their texts appear again."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.console.sources.contracts import Cleaner, contract_of, without_secrets
from holdfast.console.sources.viewer import Viewer
from holdfast.contract.redaction import has_marks
from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Operation
from holdfast.workers.run_lookup import accepted_in


class Veil:
    """Takes the secrets of one run out of everything that its page shows. Of a plain function nothing is known to be secret."""

    def __init__(self, viewer: Viewer, header: Execution) -> None:
        accepted = accepted_in(viewer.store, header)
        contract = None if accepted is None else contract_of(viewer, header, accepted)
        self._contract = contract if contract is not None and has_marks(contract.input_schema) else None
        self._cleaner = None if self._contract is None or accepted is None else Cleaner(accepted.request.inputs, self._contract)

    def text(self, text: str) -> str:
        """A text without the secrets."""
        return text if self._cleaner is None else self._cleaner.text(text)

    def given(self, text: str | None) -> str | None:
        """As `text`; nothing stays nothing."""
        return None if text is None else self.text(text)

    def value(self, value: Any) -> Any:
        """A JSON value without the secrets."""
        return value if self._cleaner is None else self._cleaner.value(value)

    def inputs(self, inputs: Any) -> Any:
        """The inputs of the run, with a placeholder in each place that is secret."""
        return self.value(without_secrets(inputs, self._contract))

    def operation(self, op: Operation) -> Operation:
        """An operation without the secrets in its payloads."""
        if self._cleaner is None:
            return op
        return msgspec.structs.replace(op, result=self.given(op.result), error=self.failure(op.error))

    def failure(self, error: Failure | None) -> Failure | None:
        """An error without the secrets."""
        if error is None or self._cleaner is None:
            return error
        stack = None if error.stack_trace is None else tuple(map(self.text, error.stack_trace))
        return Failure(self.given(error.message), error.type, self.given(error.data), stack)
