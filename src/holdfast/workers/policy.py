"""What the operator decides, in addition to the contracts: one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from holdfast.contract.terms import RateLimit


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may spend in one UTC day, over all workers; None: no cap."""

    tokens: int | None = None
    cost_usd: Decimal | None = None
    runs: int | None = None


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The most of each kind that a body may make. Steps, calls and artifacts stay in the history; progress and log lines cost observers
    time."""

    steps: int = 1000
    """At most this many steps in one attempt; with more the attempt ends with `step_limit`."""
    tool_calls: int = 5000
    """At most this many tool calls in one run, unless its contract allows fewer; more are refused with `budget_exceeded`."""
    questions: int = 100
    """At most this many questions to people in one attempt; more are refused with `budget_exceeded`."""
    artifacts: int = 1000
    """One attempt stores at most this many artifacts, and opens at most this many; more are refused with `artifact_too_large`."""
    progress: int = 10_000
    """At most this many notes of progress in one attempt; more are dropped, and a log line says so."""
    log_lines: int = 1000
    """At most this many log lines in one attempt; more are dropped, and the last line says how many."""


Risk: TypeAlias = Literal["low", "medium", "high"]


class RiskRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator demands for questions of one risk. It adds to what the author asks for, and takes nothing away."""

    votes: int = 1
    """How many persons must approve, at least."""
    group: str | None = None
    """At least one of them must be a member of this group."""
    batch: bool = True
    """Whether such questions may be decided together with others."""
    links: bool = True
    """Whether links may be made for such questions."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings. They tighten the contracts; `retry_codes` and `rate_limits` replace what a contract says."""

    isolation: Literal["all", "process", "inline"] = "all"
    retry_codes: Mapping[str, Mapping[str, bool]] = {}
    """By worker: which error codes are retried. It overrides the worker's page."""
    rate_limits: Mapping[str, RateLimit] = {}
    """By worker: the rate limit that replaces the one on its page."""
    approvals: frozenset[str] = frozenset()
    """Tools that need an approval, in addition to those that declare it."""
    approval_seconds: int = 7 * 86_400
    approvers: tuple[str, ...] = ()
    """The names of the persons who may decide; empty: every person with the role."""
    groups: Mapping[str, tuple[str, ...]] = {}
    """Groups of persons, by name ([groups]). A group may stand wherever an approver may."""
    risks: Mapping[Risk, RiskRule] = {}
    """What is demanded for each risk ([risks.high])."""
    tool_risks: Mapping[str, Risk] = {}
    """By tool: the risk of its approvals."""
    link_base: str | None = None
    """The address at which persons reach the server, for the links that the server makes. None: the address at which the caller who makes
    the link reached it."""
    caps: Caps = Caps()
    tenant_caps: Mapping[str, Caps] = {}
    grace_seconds: float = 5.0
    """How long a call in flight may go on after its attempt is over, to record its outcome."""
    reconcile_seconds: float = 20.0
    """How long a tool has to find out the outcome of a lost call. A person is asked only after that."""
    inline_artifact_bytes: int = 64 * 1024
    """Top-level outputs above this size become artifacts."""
    artifact_bytes: int = 256 * 1024 * 1024
    scratch_mb: int = 64
    memory_mb: int = 1024
    """The memory of one body whose contract sets no limit."""
    bodies_memory_mb: int | None = None
    """The memory of all bodies of a server together, spares included; None is half of what the machine has."""
    bodies_processes: int = 512
    """All bodies of a server together, spares included, have at most this many processes."""
    most: Most = Most()
    ledger_days: int = 396
    """How long the ledger keeps an entry, in days: 13 months."""
    estimate: Literal["worst", "typical", "none"] = "none"
    """By which estimate a run is refused before it starts, if the estimate is above the caller's cap or above what is left of the tenant's
    daily caps: `worst` is the most that it can cost, `typical` what such runs usually cost, and `none` refuses no run."""

    def caps_of(self, tenant: str) -> Caps:
        """A tenant's caps."""
        return self.tenant_caps.get(tenant, self.caps)
