"""What the operator decides, beside the contracts: one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from holdfast.contract.terms import RateLimit


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant may spend in one UTC day, over all workers; None is without end."""

    tokens: int | None = None
    cost_usd: Decimal | None = None
    runs: int | None = None


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """How many of each a body may make. What is in the history stays there; what is only live costs those who look on."""

    steps: int = 1000
    """In one attempt; beyond it the attempt ends with `step_limit`."""
    tool_calls: int = 5000
    """In one run, where its contract does not say less; beyond it calls are refused with `budget_exceeded`."""
    questions: int = 100
    """That one attempt may put to people; beyond it they are refused with `budget_exceeded`."""
    artifacts: int = 1000
    """That one attempt may keep, and as many that it may open; beyond it they are refused with `artifact_too_large`."""
    progress: int = 10_000
    """In one attempt; what comes beyond it is dropped, and a line of the log says so."""
    log_lines: int = 1000
    """In one attempt; what comes beyond it is dropped, and the last line says how many."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's word. It may tighten what contracts say, and where it says so, overrule it."""

    isolation: Literal["all", "process", "inline"] = "all"
    retry_codes: Mapping[str, Mapping[str, bool]] = {}
    """By worker: which codes are retried, whatever its page says."""
    rate_limits: Mapping[str, RateLimit] = {}
    """By worker, in place of its page's."""
    approvals: frozenset[str] = frozenset()
    """Tools that need an approval in addition to those that say so."""
    approval_seconds: int = 7 * 86_400
    approvers: tuple[str, ...] = ()
    """Who may decide; nobody named means everybody with the role."""
    caps: Caps = Caps()
    tenant_caps: Mapping[str, Caps] = {}
    grace_seconds: float = 5.0
    """How long a call in flight may go on after its attempt is over, to record what it did."""
    inline_artifact_bytes: int = 64 * 1024
    """Larger top-level outputs are moved out as artifacts."""
    artifact_bytes: int = 256 * 1024 * 1024
    scratch_mb: int = 64
    memory_mb: int = 1024
    """For bodies whose contract does not say."""
    bodies_memory_mb: int | None = None
    """For all bodies of a server together, spares included; None is half of what the machine has."""
    bodies_processes: int = 512
    """The same for their processes."""
    most: Most = Most()

    def caps_of(self, tenant: str) -> Caps:
        """A tenant's caps."""
        return self.tenant_caps.get(tenant, self.caps)
