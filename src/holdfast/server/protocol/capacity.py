"""Capacity: how many requests the server answers at once, and how many of them one tenant may have."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.web.errors import too_many

_SHARE: Final = 4
"""A tenant has one part in so many: the others must find room too."""


class TenantCapacity:
    """So many at once. Whoever is of no tenant has them all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._each = max(1, most // _SHARE)
        self._taken = 0
        self._by_tenant: Counter[str] = Counter()

    @property
    def tenants(self) -> Mapping[str, int]:
        """How many each has now."""
        return self._by_tenant

    @contextlib.contextmanager
    def taken(self, tenant: str | None) -> Iterator[None]:
        """Take one, or be refused."""
        if self._taken >= self._most or (tenant is not None and self._by_tenant[tenant] >= self._each):
            raise too_many("Too many requests at once. Come back soon.", "CallerRateLimitExceeded")
        self._count(tenant, 1)
        try:
            yield
        finally:
            self._count(tenant, -1)

    @contextlib.contextmanager
    def given_back(self, tenant: str | None) -> Iterator[None]:
        """Let others have it meanwhile; it is there again afterwards, if need be as one too many."""
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
