"""Takes the secrets out of what the page of a run shows. A secret is a value of the inputs that the contract marks as secret. Its text is
also taken out of all other texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.server_process import ServerProcess
from holdfast.console.sources.contracts import Cleaner, contract_of, without_secrets
from holdfast.console.sources.viewer import Viewer
from holdfast.contract.redaction import has_marks
from holdfast.contract.terms import Contract
from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Operation
from holdfast.store.seam import Filter
from holdfast.workers.run_lookup import accepted_in

_MOST_BELOW: Final = 250
"""The secrets of at most this many runs below a run are read. If there are more runs, or more secrets than a Cleaner looks for, the page
shows a placeholder instead of each text."""
_MOST_ASKING: Final = 500
"""To find the runs below a run, at most this many executions are asked which runs they asked for. If there are more, the page shows a
placeholder instead of each text."""


class Veil:
    """Takes secrets out of what the page of a run shows: the secrets of the run, and those of all runs below it (which it asked for, itself
    or through others).

    A durable function has no contract, so nothing in its own input is secret. If the console does not know the contract of a worker's run,
    all texts and numbers of the run's inputs are hidden. Those that are not very short are also taken out of other texts.
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
        """The text, with a placeholder in place of each secret. Only a placeholder if there are too many secrets or runs to look through,
        or if the text has the beginning of a long secret."""
        return text if self._cleaner is None else self._cleaner.text(text)

    def given(self, text: str | None) -> str | None:
        """What the method `text` returns for this text; None for None."""
        return None if text is None else self.text(text)

    def value(self, value: Any) -> Any:
        """A JSON value, with placeholders in place of the secrets in its texts, numbers and names. If there are too many secrets or runs to
        look through, only a placeholder."""
        return value if self._cleaner is None else self._cleaner.value(value)

    def inputs(self, inputs: Any) -> Any:
        """The inputs of the run, with a placeholder in each place that is secret. If there are too many secrets or runs to look through,
        only a placeholder."""
        return inputs if self._cleaner is None else self.value(without_secrets(inputs, self._contract))

    def operation(self, op: Operation) -> Operation:
        """An operation without the secrets in its result and its error."""
        if self._cleaner is None:
            return op
        return msgspec.structs.replace(op, result=self.given(op.result), error=self.failure(op.error))

    def failure(self, error: Failure | None) -> Failure | None:
        """An error without the secrets in its message, its data and its stack; None if it is None."""
        if error is None or self._cleaner is None:
            return error
        stack = None if error.stack_trace is None else tuple(map(self.text, error.stack_trace))
        return Failure(self.given(error.message), error.type, self.given(error.data), stack)


def _below(viewer: Viewer, header: Execution) -> list[tuple[Any, Contract]] | None:
    """The inputs and contracts of all runs below a run: those that it asked for, itself or through others. Only runs of workers whose
    contract marks secrets are in the result. A console without a server knows no such worker, so its result is empty. None if there are too
    many runs to read them all."""
    served = viewer.served
    marking = (
        set() if served is None else {name for name in served.names() if any(has_marks(x.input_schema) for x in served.contracts(name))}
    )
    if served is None or not marking or not header.operations:
        return []
    asking, children = [header], list[Execution]()
    for asks in asking:
        asked = _asked(viewer, served, asks, marking)
        children += [one for one in asked if one.function in marking]
        asking += [one for one in asked if one.operations and not _is_worker(served, one)]
        if len(children) > _MOST_BELOW or len(asking) > _MOST_ASKING:
            return None
    found: list[tuple[Any, Contract]] = []
    for child in children:
        accepted = accepted_in(viewer.store, child)
        contract = None if accepted is None else contract_of(viewer, child, accepted)
        if accepted is not None and contract is not None:
            found.append((accepted.request.inputs, contract))
    return found


def _asked(viewer: Viewer, served: ServerProcess, asks: Execution, marking: set[str]) -> Sequence[Execution]:
    """The executions that `asks` asked for directly. If there are many, executions that can neither have secrets nor ask for runs that have
    some are left out. `marking`: the workers whose contracts mark secrets."""
    found = viewer.store.list(Filter(parent=asks.id, limit=_MOST_BELOW + 1))
    if len(found) <= _MOST_BELOW:
        return found
    # The shards of a map have the function of their pipeline.
    names = {asks.function, *marking, *served.functions(), *(name for name in served.names() if served.graph(name) is not None)}
    return [one for name in names for one in viewer.store.list(Filter(parent=asks.id, function=name, limit=_MOST_BELOW + 1))]


def _is_worker(served: ServerProcess, header: Execution) -> bool:
    """Whether an execution is a run of a worker, and not of a pipeline, that the server serves. Such a run asks for no other runs."""
    return bool(served.contracts(header.function)) and served.graph(header.function) is None
