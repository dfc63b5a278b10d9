"""The pytest plugin: the fixture `durable_runner`, and assertion messages with values in the store suite.

It is installed with Holdfast, and pytest loads it before it collects tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.testing.runner import Runner

# Without this call, a failed assertion of the store suite shows only `AssertionError`, without values. It must come before the import of
# the suite.
pytest.register_assert_rewrite("holdfast.testing.stores")


@pytest.fixture
def durable_runner() -> Iterator[Callable[..., Runner]]:
    """A function that makes a `holdfast.testing.Runner`: `runner = durable_runner(process_order, stubs={"charge": 1})`. The runners are
    closed after the test."""
    from holdfast.testing.runner import Runner  # imported here, so that only tests that use it pay for the import

    with ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Runner:
            return stack.enter_context(Runner(*arguments, **settings))

        yield make
