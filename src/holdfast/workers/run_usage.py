"""What runs have used so far, each with its own calls and all runs below it. A person who decides an approval sees these amounts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec

from holdfast.contract.protocol import ResponseUsage, Tokens, response_from
from holdfast.contract.terms import RunLimits
from holdfast.model.errors import CodecFailed, RowDamaged
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import OPEN, RUN, Operation
from holdfast.store.seam import ExecutionStore, Filter
from holdfast.workers.approvals import Approval, SpentBy
from holdfast.workers.calls import Calls, run_usage

_PAGE: Final = 100
_MOST_OPEN: Final = 300
"""At most about this many runs under way below one run are read. The usage of the other runs under way is missing from the sum until they
end."""
_DEEPEST: Final = 20
_NO_LIMITS: Final = RunLimits()


class Spending:
    """The usage of runs as the store has it now. What was computed for a run is remembered, and not computed again."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._known: dict[str, ResponseUsage] = {}
        self._above: dict[str, tuple[SpentBy, ...]] = {}

    def with_spent(self, approval: Approval) -> Approval:
        """The approval, with what its run has used so far, and what each execution above that run has used. If one of them cannot be read,
        or was removed, it is left out, and so is everything above it."""
        if approval.run_id not in self._above:
            self._above[approval.run_id] = tuple(self._upwards(approval.run_id))
        return msgspec.structs.replace(approval, spent=self._above[approval.run_id])

    def _upwards(self, run_id: str) -> list[SpentBy]:
        found: list[SpentBy] = []
        above: str | None = run_id
        try:
            while above is not None and len(found) < _DEEPEST and (header := self._store.find(above)) is not None:
                found.append(SpentBy(run_id=header.id, worker_id=header.function, usage=self.used(header)))
                above = header.parent
        except (RowDamaged, CodecFailed):  # an error here must not hide the approval
            return found
        return found

    def used(self, header: Execution) -> ResponseUsage:
        """What an execution has used, including the runs below it. If very many of those runs are under way, some of these are left out
        (`_MOST_OPEN`)."""
        known = self._known.get(header.id)
        if known is None:
            known = self._known[header.id] = self._used(header, 0, _MOST_OPEN)
        return known

    def _used(self, header: Execution, depth: int, most: int) -> ResponseUsage:
        operations = self._store.operations(header.id)
        calls = Calls(_NO_LIMITS)
        calls.read(operations)
        own = run_usage(calls.usage, calls.count)
        runs = [operation for operation in operations if operation.sub_type == RUN]
        parts = [own, *(_told(operation) for operation in runs if operation.status not in OPEN)]
        if depth < _DEEPEST and any(operation.status in OPEN for operation in runs):
            beyond: str | None = None
            wanted = Filter(parent=header.id, statuses=(ExecutionStatus.RUNNING,), limit=_PAGE)
            while most > 0 and (page := self._store.list(msgspec.structs.replace(wanted, beyond=beyond))):
                parts += [self._used(child, depth + 1, most - len(page)) for child in page]
                most, beyond = most - len(page), page[-1].id
        return summed(parts)


def _told(operation: Operation) -> ResponseUsage:
    """The usage in the response of a child run that has ended; zero if the run ended without a response. `operation` is the one that asked
    for the run."""
    text = operation.result if operation.error is None else operation.error.data
    try:
        return response_from(text or "{}").observability.usage
    except msgspec.MsgspecError:  # a run that was stopped left no response
        return ResponseUsage()


def summed(parts: Sequence[ResponseUsage]) -> ResponseUsage:
    """What several runs have used together."""
    return ResponseUsage(
        tokens=Tokens(sum(one.tokens.input for one in parts), sum(one.tokens.output for one in parts)),
        cost_usd=sum((one.cost_usd for one in parts), Decimal(0)),
        tool_calls=sum(one.tool_calls for one in parts),
        cached_tokens=sum(one.cached_tokens for one in parts),
        reasoning_tokens=sum(one.reasoning_tokens for one in parts),
    )
