"""An accepted request: the input of a run's execution."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import WorkerRequest
from holdfast.contract.terms import RunLimits
from holdfast.model import codec, json_structs

SHARD: Final = "shard:"
"""The package of a shard begins with this text."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit of a pipeline's run, or of one node of it, that the calls of a child run are charged to."""

    key: str
    """The beginning of the names of the budget's counters: `budget/RUN` for a run, `budget/RUN/NODE` for a node of it."""
    max_tokens: int | None = None
    """The most tokens; None: no limit."""
    max_cost: Decimal | None = None
    """The most money, in dollars; None: no limit."""
    until: int
    """When the store may remove the budget's counters, in milliseconds since 1970. It is after the deadline of the run that owns the
    budget."""


class Labels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which part of a pipeline asked for a run, for signals and people. All members are None for a run that no pipeline asked for."""

    pipeline: str | None = None
    node: str | None = None
    item: int | None = None
    """The index of a map's item, from 0; None outside a map."""
    round: int | None = None
    """The round of the node in its validation loop, from 1; always 1 for a node outside a loop."""


class RunRestart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which run a restart restarts, and which parts of that run's work are done again. A restart of a worker's run uses only `of`."""

    of: str
    """The id of the run that is restarted."""
    nodes: tuple[str, ...] = ()
    """The names of the nodes that must run again, even if they succeeded in the restarted run."""
    is_whole: bool = False
    """Whether every node runs again."""
    resend: tuple[str, ...] = ()
    """The names of the nodes that make their writes again: the receipts of earlier runs do not answer their calls."""
    is_retry: bool = False
    """Whether nodes that ended with partial results run again, in addition to the nodes that failed."""
    kept: bool = False
    """Whether the run that is restarted succeeded, or is itself a restart whose `kept` is true. Then work that is taken from earlier runs
    is not undone when the new run fails. A child run has the value of its pipeline's run."""


class FamilyLink(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run in its family. A family is all runs that do the same piece of work, one after the other."""

    family: str
    """The id of the family."""
    number: int
    """The number of the run among the runs that do the same work, from 1."""
    before: tuple[str, ...] = ()
    """The ids of the earlier runs, oldest first."""
    again: RunRestart | None = None
    """Which run this run restarts, and how; None if this run is no restart."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The executions above a run. The ledger keeps these ids longer than the store keeps the executions."""

    above: tuple[str, ...] = ()
    """The ids of the executions above the run, outermost first: pipelines, shards of maps, the durable function that asked for the
    outermost run, and the executions that invoked that function, at most 32 of them."""
    owner: str = ""
    """The id of the execution whose node or operation asked for the run; never a shard. Empty if no execution asked for it."""


class AcceptedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, and everything that the worker service decided when it accepted the request."""

    request: WorkerRequest
    version: str
    limits: RunLimits
    package: str
    """The id of the snapshot of code and page that this run is pinned to. Every attempt uses that snapshot."""
    tenant: str
    requested_by: str
    """Who asked for the run, for example a person, the id of a credential, or `execution:ID`. A caller cannot choose it."""
    family: str
    """The id of the run's family. All runs of one idempotency key belong to one family, and so do a run and its restarts. A child run
    belongs to the same family each time its operation asks for it, also in a restart of its pipeline. But a new family begins if the
    restart makes the writes of its node again: because the operator wants that, or because the node was undone."""
    link: int = 1
    """The number of the run among the runs that do the same work one after the other, from 1. If the work goes on in a new family, the
    count goes on too. A run that replaces a parked run has the number of the parked run."""
    before: tuple[str, ...] = ()
    """The ids of the earlier runs of its family, oldest first. The run inherits their receipts."""
    trace_id: str
    span_id: str
    sampled: bool | None = None
    """Whether the caller records the trace of this request; None: the caller did not say."""
    log_fields: tuple[str, ...] = ()
    """The names of the contract's log fields, for code that does not have the contract."""
    depth: int = 0
    """How deep the run is nested: 0 for a run that a caller asked for from outside, 1 for a run that a durable function asked for, and one
    more than its parent for a run that another run asked for."""
    budgets: tuple[Budget, ...] = ()
    """The budgets of the pipelines above this run and of their nodes, the nearest first. The run's calls are charged to all of them."""
    labels: Labels = Labels()
    lineage: Lineage = Lineage()
    part: str = ""
    """Which part of a node's work this run does: `work`, `undo`, and others; empty for a run that no pipeline asked for."""
    again: RunRestart | None = None
    """Which run this run restarts, and how; None if this run is no restart."""

    @property
    def is_shard(self) -> bool:
        """Whether this is a shard of a pipeline's map, and not a run that a caller asked for. This is read from the id of the run's code
        (`package`), which a caller cannot choose."""
        return self.package.startswith(SHARD)


def work_of(accepted: AcceptedRequest) -> str:
    """The hash of the work that a run does: its worker, version, package (the id of the snapshot of its code and page) and inputs. For an
    artifact among the inputs, only its id is hashed. The id depends on the artifact's bytes, name and media type."""
    asked = accepted.request
    return codec.payload_hash(codec.dumps([asked.worker_id, accepted.version, accepted.package, _by_content(asked.inputs)]))


def _by_content(value: Any) -> Any:
    """The value, with each reference to an artifact reduced to the artifact's id, because only the id decides which bytes are read."""
    if isinstance(value, dict):
        inner = value.get("$artifact") if len(value) == 1 else None
        if isinstance(inner, dict) and isinstance(inner.get("artifact_id"), str):
            return {"$artifact": inner["artifact_id"]}
        return {name: _by_content(one) for name, one in value.items()}
    return [_by_content(one) for one in value] if isinstance(value, list) else value


_decoder = json_structs.decoder(AcceptedRequest)


def accepted_from(text: str | None) -> AcceptedRequest:
    """The accepted request in the input of an execution. Raises msgspec.DecodeError if the input is not an accepted request."""
    return _decoder.decode(text or "{}")
