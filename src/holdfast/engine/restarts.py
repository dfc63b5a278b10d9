"""Restarts: a name is started again after its execution failed, or because a person wants that."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.engine.enqueues import same_place
from holdfast.model.audit import Notes
from holdfast.model.charges import Charge
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import FAILED_STATUSES, Execution, ExecutionStatus, GraphText, State, Terms, goes_on_as
from holdfast.model.life import new_execution
from holdfast.model.operations import Kind
from holdfast.model.restart_errors import RestartRefused
from holdfast.model.starts import Restart
from holdfast.model.summary import begun, pipeline_of
from holdfast.model.verbs import Start
from holdfast.store.seam import CommitStore, ExecutionStore

ON_FAILED = ("find", "restart")
"""What a start does if the execution that has the name failed: treat it like one that did not fail, as AWS does ("find"), or start a new
execution under the name ("restart")."""


class RestartStore(CommitStore, ExecutionStore, Protocol):
    """The part of a store that reads an execution and starts it again."""


def is_restart(on_failed: str, name: str | None) -> bool:
    """Whether a start shall make a new execution if the execution that has its name failed: True for "restart", False for "find". Raises
    InvalidParameter for any other value, and for "restart" without a name."""
    if on_failed not in ON_FAILED:
        raise InvalidParameter(f"on_failed is {on_failed!r}; use {' or '.join(map(repr, ON_FAILED))}.")
    if on_failed == "restart" and name is None:
        raise InvalidParameter("on_failed='restart' needs a name: without one every start is a new execution.")
    return on_failed == "restart"


def failed_as(store: ExecutionStore, function: str, name: str | None) -> str | None:
    """The id of the execution that has this name, if it failed, timed out or was stopped; else None. If it continued as another execution,
    and so on, the last one of this chain decides whether it failed: the first one keeps the name, and its own status does not tell how the
    chain ended."""
    first = last = None if name is None else store.find_named(function, name)
    while last is not None and last.continued_as is not None:
        heir = store.find(last.continued_as)
        if heir is None or not goes_on_as(last, heir):
            return None
        last = heir
    return first.id if first is not None and last is not None and last.status in FAILED_STATUSES else None


def check_restartable(header: Execution) -> None:
    """Raise RestartRefused for an execution that cannot be restarted: it has not ended, another execution restarts or continues it already,
    another execution invoked it, or it is an imported copy."""
    called = f"{header.function} {header.id}"
    if header.state is State.IMPORTED:
        raise RestartRefused(f"{called} is an imported copy and does not run here. Restart the original in its own store.")
    if header.status is ExecutionStatus.RUNNING:
        raise RestartRefused(f"{called} is not over: wait for its end, or end it first.")
    if header.superseded_by is not None:
        raise RestartRefused(f"{called} was started again as {header.superseded_by}: restart that one.")
    if header.continued_as is not None:
        raise RestartRefused(f"{called} continued as {header.continued_as}: restart that one.")
    if header.parent is not None:
        raise RestartRefused(f"{called} was invoked by {header.parent}: restart that one.")


def restarted(
    old: Execution,
    identity: str,
    now: int,
    *,
    payload: str,
    restart: Restart,
    kind: Kind = Kind.FUNCTION,
    graph: GraphText | None = None,
    version: str | None = None,
    terms: Terms | None = None,
    same: str | None = None,
    charges: tuple[Charge, ...] = (),
    notes: Notes = (),
) -> Start:
    """The start that restarts the execution `old` under its name, and in its queue if it came from one. `old` stays in the store and is
    superseded. The new execution has the id `identity` and the input `payload`. `restart` says which part of the history of `old` is
    copied. If `version` or `terms` is None, that of `old` is kept.
    `same`: a text that later starts of the name are compared by; None: they are compared by the input. Raises RestartRefused if the old
    execution cannot be restarted."""
    check_restartable(old)
    who = {"tenant": old.tenant, "trace": old.trace, "same": same}
    made = new_execution(identity, None, old.function, version or old.version, payload=payload, now=now, terms=terms or old.terms, **who)
    place = old.place
    return Start(
        msgspec.structs.replace(made, name=old.name, summary=begun(pipeline_of(old.summary))),
        payload,
        same=same,
        kind=kind,
        graph=graph,
        charges=charges,
        again=True,
        enqueue=None if place is None else same_place(place),
        restart=restart,
        notes=notes,
    )
