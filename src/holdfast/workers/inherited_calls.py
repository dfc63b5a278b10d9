"""Inherited calls: the calls of earlier runs of a family. Every run that inherits them stores them again.

Retention may remove an earlier run before the next restart. So a run writes each inherited call into its own journal before its body
begins, and again each time the call changes in this run (`kept_call`). These records are not calls of this run: they do not count in
quotas, budgets or the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal, identity_of, succeeded
from holdfast.model.operations import Operation, Type, Update
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.calls import Calls, Inherited, Try
from holdfast.workers.earlier_runs import keeps_earlier_calls
from holdfast.workers.run_operations import CARRIED_AT, EFFECTS_AT, INHERITED

Operations: TypeAlias = Callable[[str, str], Iterable[Operation] | None]
"""A function that takes a run's id and a tenant, and returns the operations of the run: empty if the run belongs to another tenant, None if
the store has removed the run."""
_AT_ONCE: Final = 20
"""One write stores at most this many inherited calls, because a receipt may be large."""
_CAME, SETTLED = "came", "settled"


def read_earlier(calls: Calls, accepted: AcceptedRequest, journal: Journal, operations_of: Operations) -> str | None:
    """Add the calls of earlier runs to `calls`, unless this run has stored them already among its own operations. Returns an error text if
    the store has removed one of the earlier runs and no later one of them has stored its calls; else None."""
    if journal.find(CARRIED_AT) is not None:
        return None  # they are among this run's own operations
    gone: str | None = None
    for run_id in accepted.before:
        operations = operations_of(run_id, accepted.tenant)
        if operations is None:
            gone = gone or f"Run {run_id}, whose writes this run must know, is not kept any more: it is unknown what it has written."
            continue
        found = list(operations)
        gone = None if keeps_earlier_calls(found) else gone
        calls.read(found, inherited=True)
    return gone


async def carry(calls: Calls, accepted: AcceptedRequest, journal: Journal) -> None:
    """Write every inherited call into this run's journal, unless that has happened already."""
    if not accepted.before or journal.find(CARRIED_AT) is not None:
        return
    inherited = [one for one in calls.tries if one.inherited and journal.find(_at(one, _CAME)) is None]
    rest = [kept_call(one, _CAME) for one in inherited]
    while len(rest) > _AT_ONCE:
        await journal.write(*rest[:_AT_ONCE])
        rest = rest[_AT_ONCE:]
    await journal.write(*rest, succeeded(CARRIED_AT, "null"))


def kept_call(attempted: Try, what: str) -> Update:
    """The update that records an inherited call in its present state. `what` says why it is recorded: `came`, because the run inherited it;
    `settled`, because it got its receipt in this run; or the hash of other arguments, because a person accepted its answer for those
    arguments."""
    one = attempted
    kept = Inherited(intent=one.intent, receipt=one.receipt, began=one.began, at=one.at, kept=one.kept)
    return succeeded(_at(one, what), msgspec.json.encode(kept).decode())


def _at(attempted: Try, what: str) -> Identity:
    intent = attempted.intent
    return identity_of(Type.STEP, INHERITED, intent.tool, intent.identity, intent.number, what, parent=EFFECTS_AT)
