"""How the suite gets at a store: its one fixture, `opening`, is the backend's."""

from collections.abc import Callable

import pytest

from holdfast.store.seam import Store
from holdfast.testing.stores.writes import LEASE

Opening = Callable[[str], Store]
"""Opens the store of this test for a member; whoever provides it closes what is still open.

The first call finds a store in which there is nothing. Another opens the same one again, beside the first or after it was closed.
"""


class OneHandle:
    """Needs one handle. A backend's class inherits what follows from this and provides the fixture `opening`."""

    @pytest.fixture
    def store(self, opening: Opening) -> Store:
        """The store of a process called `here`, which is also a runner."""
        store = opening("here")
        store.join("here", LEASE)
        return store


class TwoHandles(OneHandle):
    """Opens the same store again, after closing it and beside it: as a second process does, though the suite stays in one."""

    @pytest.fixture
    def other(self, opening: Opening, store: Store) -> Store:
        """A second process on the same store, with a runner of its own."""
        other = opening("there")
        other.join("there", LEASE)
        store.changed()
        other.changed()
        return other
