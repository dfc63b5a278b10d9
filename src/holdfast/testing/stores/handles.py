"""Handles: how the suite opens a store. A backend provides the one fixture, `opening`."""

from collections.abc import Callable

import pytest

from holdfast.store.seam import Store
from holdfast.testing.stores.writes import LEASE

Opening = Callable[[str], Store]
"""Opens the store of this test for a member. The backend's fixture closes the handles that are still open at the end.

The first call opens an empty store. A later call opens the same store again, while the first handle is open or after it was closed.
"""


class OneHandle:
    """Tests that need one handle. A backend's class inherits from a suite and provides the fixture `opening`."""

    @pytest.fixture
    def store(self, opening: Opening) -> Store:
        """The store of a process called `here`, which is also a runner."""
        store = opening("here")
        store.join("here", LEASE)
        return store


class TwoHandles(OneHandle):
    """Tests that open the same store again, after closing it or while it is open, as a second process would."""

    @pytest.fixture
    def other(self, opening: Opening, store: Store) -> Store:
        """A second process on the same store, with a runner of its own."""
        other = opening("there")
        other.join("there", LEASE)
        store.changed()
        other.changed()
        return other
