"""Policy: what the operator decides in addition to the contracts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from holdfast.contract.terms import RateLimit


class DayCaps(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may spend in one UTC day, over all workers. For each amount, None means no cap."""

    tokens: int | None = None
    cost_usd: Decimal | None = None
    runs: int | None = None


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """How many steps, calls, questions, artifacts, progress reports and log lines a body may make."""

    steps: int = 1000
    """At most this many steps in one attempt; if the body begins more, the attempt ends with `step_limit`."""
    tool_calls: int = 5000
    """At most this many tool calls in one run, unless its contract or request allows fewer; more are refused with `budget_exceeded`."""
    questions: int = 100
    """At most this many questions to people in one attempt; more are refused with `budget_exceeded`."""
    artifacts: int = 1000
    """One attempt stores at most this many artifacts, and opens at most this many; more are refused with `artifact_too_large`."""
    progress: int = 10_000
    """At most this many reports of progress in one attempt; more are dropped, and a log line says so."""
    log_lines: int = 1000
    """At most this many log lines in one attempt; more are dropped, and one more line at the end says how many."""


Risk: TypeAlias = Literal["low", "medium", "high"]


class RiskRule(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator demands for questions of one risk, in addition to the author's demands."""

    votes: int = 1
    """The least number of persons who must approve. If the author demands more persons, the author's number holds."""
    group: str | None = None
    """At least one of the persons who approve must be a member of this group; None: no group is demanded."""
    batch: bool = True
    """Whether such questions may be decided in a batch, together with others."""
    links: bool = True
    """Whether links may be made for such questions."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings. They tighten the contracts; `retry_codes` and `rate_limits` replace what a contract says."""

    isolation: Literal["all", "process", "inline"] = "all"
    """Where bodies run: `all` is a jail, `process` a process with limits and without a jail, `inline` the runner's own process."""
    retry_codes: Mapping[str, Mapping[str, bool]] = {}
    """By worker id and then by error code: whether an attempt that failed with this code is retried. This overrides Holdfast's table of
    codes and the worker's page, except for codes after which a person or another request is needed."""
    rate_limits: Mapping[str, RateLimit] = {}
    """By worker id: the rate limit that replaces the one on the worker's page."""
    approvals: frozenset[str] = frozenset()
    """The names of tools whose calls need an approval, in addition to the tools that declare it themselves and those that a contract
    names."""
    approval_seconds: int = 7 * 86_400
    """How many seconds an approval stays open without a decision. After that it expires. A question of a human node has the node's own time
    limit instead."""
    approvers: tuple[str, ...] = ()
    """Who may decide a question for which the author names no approvers: names of persons, groups or credentials. Empty: every person with
    the role."""
    groups: Mapping[str, tuple[str, ...]] = {}
    """Groups of persons, by name ([groups]). The name of a group may be used wherever the name of an approver may."""
    risks: Mapping[Risk, RiskRule] = {}
    """What is demanded for questions of each risk ([risks.high])."""
    tool_risks: Mapping[str, Risk] = {}
    """By the name of a tool: the risk of the approvals of its calls."""
    link_base: str | None = None
    """The address at which persons reach the server, for the links that the server makes. None: the address at which the caller who makes
    the link reached the server."""
    caps: DayCaps = DayCaps()
    """The daily caps of each tenant that has no entry in `tenant_caps`."""
    tenant_caps: Mapping[str, DayCaps] = {}
    """By tenant: the daily caps, which replace `caps` as a whole."""
    grace_seconds: float = 5.0
    """How many seconds a call in flight may continue after its attempt has ended, to record its outcome."""
    reconcile_seconds: float = 20.0
    """A tool has at least this many seconds to find out whether a call took place whose answer was lost. A person is asked only if the tool
    cannot tell."""
    inline_artifact_bytes: int = 64 * 1024
    """If the outputs of a run have more bytes as JSON than this, the largest top-level values become artifacts, one after the other, until
    the outputs that stay have at most this many bytes."""
    artifact_bytes: int = 256 * 1024 * 1024
    """The most bytes of one artifact, and of all artifacts of one attempt together."""
    scratch_mb: int = 64
    """The size of a body's folder for temporary files, in MiB."""
    memory_mb: int = 1024
    """The most memory of one body whose contract sets no limit, in MiB."""
    bodies_memory_mb: int | None = None
    """The most memory of all bodies of a server together, spares included, in MiB; None: half of the machine's memory."""
    bodies_processes: int = 512
    """The most processes of all bodies of a server together, spares included."""
    most: Most = Most()
    ledger_days: int = 396
    """How long the ledger keeps an entry, in days: 13 months."""
    estimate: Literal["worst", "typical", "none"] = "none"
    """By which estimate a run is refused before it starts, if the estimate is above the caller's cap or above what is left of the tenant's
    daily caps, or is not known although there is a cap: `worst` is the most that the run can cost, `typical` what such runs usually cost,
    and `none` refuses no run."""

    def caps_of(self, tenant: str) -> DayCaps:
        """The daily caps of a tenant: its entry in `tenant_caps`; without one, `caps`."""
        return self.tenant_caps.get(tenant, self.caps)
