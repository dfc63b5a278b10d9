"""Takes the secrets out of what the page of a run shows. A secret is a value of the inputs that the contract marks as secret. Its text is
also taken out of all other texts."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.console.sources.contracts import Cleaner, contract_of, without_secrets
from holdfast.console.sources.viewer import Viewer
from holdfast.contract.redaction import has_marks
from holdfast.contract.terms import Contract
from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Operation
from holdfast.store.seam import Filter
from holdfast.workers.run_lookup import accepted_in

_MOST_BELOW: Final = 250
"""At most this many child runs are read for their secrets. If there are more, or if they have more secrets than a Cleaner looks for, the
page shows a placeholder instead of each text."""
_MOST_SHARDS: Final = 20


class Veil:
    """Takes the secrets of one run, and of the runs that it asked for, out of what its page shows.

    A durable function has no contract, so nothing in its own input is secret. If the console does not know the contract of a worker, all
    texts and numbers of the inputs are treated as secrets.
    """

    def __init__(self, viewer: Viewer, header: Execution) -> None:
        accepted = accepted_in(viewer.store, header)
        self._contract = None if accepted is None else contract_of(viewer, header, accepted)
        self.is_blind = accepted is not None and self._contract is None
        """Whether the console does not know which inputs are secret."""
        below = _below(viewer, header)
        marked = below is None or bool(below) or self.is_blind or (self._contract is not None and has_marks(self._contract.input_schema))
        self._cleaner: Cleaner | None = None
        if marked:
            # Only a run has an accepted request. Any other execution has no contract.
            own = ({}, None) if accepted is None else (accepted.request.inputs, self._contract)
            self._cleaner = Cleaner(*own, below)

    def text(self, text: str) -> str:
        """A text without the secrets."""
        return text if self._cleaner is None else self._cleaner.text(text)

    def given(self, text: str | None) -> str | None:
        """As `text`; None stays None."""
        return None if text is None else self.text(text)

    def value(self, value: Any) -> Any:
        """A JSON value without the secrets."""
        return value if self._cleaner is None else self._cleaner.value(value)

    def inputs(self, inputs: Any) -> Any:
        """The inputs of the run, with a placeholder in each place that is secret."""
        return inputs if self._cleaner is None else self.value(without_secrets(inputs, self._contract))

    def operation(self, op: Operation) -> Operation:
        """An operation without the secrets in its result and its error."""
        if self._cleaner is None:
            return op
        return msgspec.structs.replace(op, result=self.given(op.result), error=self.failure(op.error))

    def failure(self, error: Failure | None) -> Failure | None:
        """An error without the secrets in its message, its data and its stack; None stays None."""
        if error is None or self._cleaner is None:
            return error
        stack = None if error.stack_trace is None else tuple(map(self.text, error.stack_trace))
        return Failure(self.given(error.message), error.type, self.given(error.data), stack)


def _below(viewer: Viewer, header: Execution) -> list[tuple[Any, Contract]] | None:
    """The inputs and contracts of the runs that a run asked for, itself or through the shards of its maps. Only runs of workers whose
    contract marks secrets are read; a console without a server knows no such worker. None if there are too many to read all of them."""
    served = viewer.served
    marking = (
        set() if served is None else {name for name in served.names() if any(has_marks(x.input_schema) for x in served.contracts(name))}
    )
    if not marking or not header.operations:
        return []
    shards = list(viewer.store.list(Filter(parent=header.id, function=header.function, limit=_MOST_SHARDS + 1)))
    asking = [header, *shards]
    children = [
        child
        for asks in asking
        for function in marking
        for child in viewer.store.list(Filter(parent=asks.id, function=function, limit=_MOST_BELOW + 1))
    ]
    if len(shards) > _MOST_SHARDS or len(children) > _MOST_BELOW:
        return None
    found: list[tuple[Any, Contract]] = []
    for child in children:
        accepted = accepted_in(viewer.store, child)
        contract = None if accepted is None else contract_of(viewer, child, accepted)
        if accepted is not None and contract is not None:
            found.append((accepted.request.inputs, contract))
    return found
