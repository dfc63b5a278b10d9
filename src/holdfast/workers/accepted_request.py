"""An accepted request: the input that the execution of a run is started with."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import WorkerRequest
from holdfast.contract.terms import Limits
from holdfast.model import codec, json_structs

SHARD: Final = "shard:"
"""The package of a shard begins with this text."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit of a pipeline's run, or of one node of it, that the calls of a child run are charged to."""

    key: str
    """The counter: `budget/RUN` or `budget/RUN/NODE`."""
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    """The most money, in dollars."""
    until: int
    """When the store may forget the counter, in milliseconds: after the deadline of the run that owns it."""


class Labels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which part of a pipeline asked for a run, for signals and people; empty for a run that no pipeline asked for."""

    pipeline: str | None = None
    node: str | None = None
    item: int | None = None
    """The index of a map's item, from 0."""
    round: int | None = None
    """The round of a validation loop, from 1."""


class Again(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which parts of an earlier run a restart reuses. A run of a worker uses only `of`."""

    of: str
    """The run that is restarted."""
    nodes: tuple[str, ...] = ()
    """Nodes of a pipeline that must run again, also if they succeeded before."""
    is_whole: bool = False
    """Whether every node runs again."""
    resend: tuple[str, ...] = ()
    """Nodes whose writes are made again. Receipts of earlier runs do not answer for them."""
    is_retry: bool = False
    """Whether nodes that ended partial run again as well."""
    kept: bool = False
    """Whether the earlier run succeeded. Then its work is not undone if this run fails."""


class FamilyLink(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a run in its family: the runs of one piece of work, one after the other."""

    family: str
    number: int
    before: tuple[str, ...] = ()
    again: Again | None = None


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The executions above a run, for the ledger, which keeps their ids longer than the store keeps the executions."""

    above: tuple[str, ...] = ()
    """The ids of the executions above the run, outermost first, including shards of maps."""
    owner: str = ""
    """The execution whose node or operation asked for the run; never a shard."""


class AcceptedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with everything that the worker service decided when it accepted it."""

    request: WorkerRequest
    version: str
    limits: Limits
    package: str
    """The snapshot of the code and the page that this run is pinned to."""
    tenant: str
    requested_by: str
    family: str
    """An id that all runs of one idempotency key share, and all restarts of a run. A child run has the same id each time its operation
    asks for it, also in a restart."""
    link: int = 1
    """Which run of its family this is, from 1."""
    before: tuple[str, ...] = ()
    """The earlier runs of its family, oldest first: the run inherits their receipts."""
    trace_id: str
    span_id: str
    sampled: bool | None = None
    """Whether the caller records its trace; None: the caller did not say."""
    log_fields: tuple[str, ...] = ()
    """The log fields of the contract, for readers who do not have the contract."""
    depth: int = 0
    """How many runs stand above this one; 0 for a run that a caller asked for from outside."""
    budgets: tuple[Budget, ...] = ()
    """The limits of all pipelines above this run, the nearest first."""
    labels: Labels = Labels()
    lineage: Lineage = Lineage()
    part: str = ""
    """Which part of a node's work this run does: `work`, `undo`, and others; empty for a run that no pipeline asked for."""
    again: Again | None = None
    """Set in a run that restarts an earlier one."""

    @property
    def is_shard(self) -> bool:
        """Whether this is a shard of a pipeline's map, and not a run that a caller asked for. A caller cannot set the package."""
        return self.package.startswith(SHARD)


def work_of(accepted: AcceptedRequest) -> str:
    """The hash of everything that a run's result depends on: inputs, worker, version and package. An artifact counts by its id, which
    follows from the sha256 of its bytes."""
    asked = accepted.request
    return sha256(codec.dumps([asked.worker_id, accepted.version, accepted.package, _by_content(asked.inputs)]).encode()).hexdigest()


def _by_content(value: Any) -> Any:
    """The value with each reference to an artifact reduced to the artifact's id: only the id decides what is read."""
    if isinstance(value, dict):
        inner = value.get("$artifact") if len(value) == 1 else None
        if isinstance(inner, dict) and isinstance(inner.get("artifact_id"), str):
            return {"$artifact": inner["artifact_id"]}
        return {name: _by_content(one) for name, one in value.items()}
    return [_by_content(one) for one in value] if isinstance(value, list) else value


_decoder = json_structs.decoder(AcceptedRequest)


def accepted_from(text: str | None) -> AcceptedRequest:
    """The accepted request that an execution's input holds; DecodeError if it holds something else."""
    return _decoder.decode(text or "{}")
