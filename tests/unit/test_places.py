"""Places: what is served at once is bounded, and no tenant can take what the others need."""

from __future__ import annotations

import contextlib

import pytest

from holdfast.server.protocol.worker_replies import WORKERS
from holdfast.web.capacity import TenantCapacity
from holdfast.web.refusals import Refused


def test_a_tenant_gets_a_quarter_and_the_others_find_room() -> None:
    places = TenantCapacity(8, WORKERS.capacity.share)
    with contextlib.ExitStack() as taken:
        for _ in range(2):
            taken.enter_context(places.taken("greedy"))
        with pytest.raises(Refused):
            taken.enter_context(places.taken("greedy"))
        for tenant in ("a", "a", "b", "b", None, None):
            taken.enter_context(places.taken(tenant))
        with pytest.raises(Refused):
            taken.enter_context(places.taken("c"))
    with places.taken("greedy"):
        assert places.tenants == {"greedy": 1}
    assert places.tenants == {}


def test_a_place_that_is_given_back_is_for_others_meanwhile() -> None:
    places = TenantCapacity(1, 1)
    with places.taken("a"), places.given_back("a"), places.taken("b"):
        assert places.tenants == {"b": 1}
    assert places.tenants == {}
