"""The pytest plugin: the fixture `durable_runner`, and readable assertion messages in the store suite.

It is installed with Holdfast, and pytest loads it before any test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.testing.runner import Runner

# Without this, the author of a store backend sees only `AssertionError` without values if pytest did not load this plugin early.
pytest.register_assert_rewrite("holdfast.testing.stores")


@pytest.fixture
def durable_runner() -> Iterator[Callable[..., Runner]]:
    """Makes a `holdfast.testing.Runner` for a function: `runner = durable_runner(process_order, stubs={"charge": 1})`."""
    from holdfast.testing.runner import Runner  # imported here, so that only tests that use it pay for the import

    with ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Runner:
            return stack.enter_context(Runner(*arguments, **settings))

        yield make
