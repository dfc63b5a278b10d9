"""Capacity: how many requests the server answers at the same time, and how many of them may be of one tenant."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.web.limits import WebLimits
from holdfast.web.refusals import too_many

UPLOADS: Final = 16
"""At most this many uploads of artifacts run at the same time."""
_BUSY: Final = ("Too many requests at once. Try again soon.", "CallerRateLimitExceeded")
INVOKED: Final = ("Too many synchronous invocations at once. Try again soon.", "ConcurrentInvocationLimitExceeded")
"""The refusal of a synchronous invocation, for `TenantCapacity.taken`."""


class TenantCapacity:
    """Limits how many requests are answered at the same time: a limit for all callers together, and a limit for each tenant. For a caller
    without a tenant, only the limit for all callers is checked."""

    def __init__(self, most: int, share: int) -> None:
        self._most = most
        self._each = max(1, most // share)
        self._taken = 0
        self._by_tenant: Counter[str] = Counter()

    @property
    def tenants(self) -> Mapping[str, int]:
        """How many requests each tenant has now."""
        return self._by_tenant

    def take(self, tenant: str | None, refusal: tuple[str, str] = _BUSY) -> None:
        """Count one more request. The caller must call `free` later. Raises Refused with this `refusal`, and counts nothing, if the limit
        for all callers or the limit for one tenant is reached."""
        if self._taken >= self._most or (tenant is not None and self._by_tenant[tenant] >= self._each):
            raise too_many(*refusal)
        self._count(tenant, 1)

    def free(self, tenant: str | None) -> None:
        """Count one request less."""
        self._count(tenant, -1)

    @contextlib.contextmanager
    def taken(self, tenant: str | None, refusal: tuple[str, str] = _BUSY) -> Iterator[None]:
        """Count one more request while the block runs. Raises Refused with this `refusal` if the limit for all callers or the limit for one
        tenant is reached."""
        self.take(tenant, refusal)
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


class ApiCapacity(NamedTuple):
    """What a group of routes declares about its capacity. Groups that declare the same share one capacity: their requests are counted
    together."""

    api: str
    share: int = 1
    """One tenant may use at most the capacity divided by this number. With 1, there is no limit for one tenant."""


COMMON: Final = ApiCapacity("common")
"""The capacity of all routes that declare no other."""


class Capacities(NamedTuple):
    """The three capacities of one API: for ordinary requests, for requests that wait for a result, and for uploads."""

    requests: TenantCapacity
    waits: TenantCapacity
    uploads: TenantCapacity

    @classmethod
    def of(cls, declared: ApiCapacity, limits: WebLimits) -> Capacities:
        """The capacities that an API declares, within these limits."""
        return cls(*(TenantCapacity(most, declared.share) for most in (limits.requests, limits.waits, UPLOADS)))
