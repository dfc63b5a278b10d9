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

    def caps_of(self, tenant: str) -> Caps:
        """A tenant's caps."""
        return self.tenant_caps.get(tenant, self.caps)
