"""Handles: how the suite opens a store. A handle is one opened `Store`. A backend provides one fixture, `opening`."""

from collections.abc import Callable

import pytest

from holdfast.store.seam import Store
from holdfast.testing.stores.writes import LEASE

PROCESSES = 4
"""How many processes the fixture `stores` simulates."""

Opening = Callable[[str], Store]
"""Opens the store of this test for a process (a member of the store), which the argument names. The backend's fixture closes the handles
that are still open at the end of the test.

The first call opens an empty store. A later call opens the same store again, while the first handle is open or after it was closed.
"""


class OneHandle:
    """Tests that need one handle. A backend's class inherits from a suite and provides the fixture `opening`."""

    @pytest.fixture
    def store(self, opening: Opening) -> Store:
        """The handle of a process called `here`, which has joined the store as a runner."""
        store = opening("here")
        store.join("here", LEASE)
        return store


class TwoHandles(OneHandle):
    """Tests that open the same store again, after closing it or while it is open, as a second process would."""

    @pytest.fixture
    def other(self, opening: Opening, store: Store) -> Store:
        """The handle of a second process on the same store, called `there`, which has joined the store as a runner."""
        other = opening("there")
        other.join("there", LEASE)
        store.changed()
        other.changed()
        return other

    @pytest.fixture
    def stores(self, opening: Opening) -> list[Store]:
        """One store handle per simulated process, called `p0`, `p1` and so on."""
        made = [opening(f"p{n}") for n in range(PROCESSES)]
        for n, store in enumerate(made):
            store.join(f"p{n}", LEASE)
        return made
