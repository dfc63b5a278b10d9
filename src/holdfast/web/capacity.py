"""Capacity: how many requests the server answers at the same time, and how many of them may be of one tenant."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.web.limits import WebLimits
from holdfast.web.refusals import too_many

_SHARE: Final = 4
"""In the worker protocol, one tenant may use at most a quarter of a capacity (the capacity divided by `_SHARE`), so that other tenants have
room too."""
UPLOADS: Final = 16
"""At most this many uploads of artifacts run at the same time."""
_BUSY: Final = ("Too many requests at once. Try again soon.", "CallerRateLimitExceeded")
_INVOKED: Final = ("Too many synchronous invocations at once. Try again soon.", "ConcurrentInvocationLimitExceeded")


class TenantCapacity:
    """Limits how many requests are answered at the same time: a limit for all callers together, and a limit for each tenant. For a caller
    without a tenant, only the limit for all callers is checked."""

    def __init__(self, most: int, share: int = _SHARE, refusal: tuple[str, str] = _BUSY) -> None:
        self._most = most
        self._each = max(1, most // share)
        self._refusal = refusal
        self._taken = 0
        self._by_tenant: Counter[str] = Counter()

    @property
    def tenants(self) -> Mapping[str, int]:
        """How many requests each tenant has now."""
        return self._by_tenant

    def take(self, tenant: str | None) -> None:
        """Count one more request. The caller must call `free` later. Raises Refused, and counts nothing, if the limit for all
        callers or the limit for one tenant is reached."""
        if self._taken >= self._most or (tenant is not None and self._by_tenant[tenant] >= self._each):
            raise too_many(*self._refusal)
        self._count(tenant, 1)

    def free(self, tenant: str | None) -> None:
        """Count one request less."""
        self._count(tenant, -1)

    @contextlib.contextmanager
    def taken(self, tenant: str | None) -> Iterator[None]:
        """Count one more request while the block runs. Raises Refused if the limit for all callers or the limit for one tenant is
        reached."""
        self.take(tenant)
        try:
            yield
        finally:
            self.free(tenant)

    @contextlib.contextmanager
    def given_back(self, tenant: str | None) -> Iterator[None]:
        """Stop counting one request while the block runs. When the block ends, the request is counted again, even if the limit is passed by
        that."""
        self._count(tenant, -1)
        try:
            yield
        finally:
            self._count(tenant, 1)

    def _count(self, tenant: str | None, by: int) -> None:
        self._taken += by
        if tenant is not None:
            self._by_tenant[tenant] += by
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]


class Capacities(NamedTuple):
    """The three capacities of one API: for ordinary requests, for requests that wait for a result, and for uploads."""

    requests: TenantCapacity
    waits: TenantCapacity
    uploads: TenantCapacity

    @classmethod
    def of_lambda(cls, limits: WebLimits) -> Capacities:
        """The capacities of the Lambda API and of all other paths outside the worker protocol. They have no limit for one tenant."""
        waits = TenantCapacity(limits.waits, 1, _INVOKED)
        return cls(TenantCapacity(limits.requests, 1), waits, TenantCapacity(UPLOADS, 1))

    @classmethod
    def of_workers(cls, limits: WebLimits) -> Capacities:
        """The capacities of the worker protocol. One tenant may use at most a quarter of each."""
        return cls(TenantCapacity(limits.requests), TenantCapacity(limits.waits), TenantCapacity(UPLOADS))
