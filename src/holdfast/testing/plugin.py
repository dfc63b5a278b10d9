"""The pytest plugin: `durable_runner` makes runners that are closed when the test ends, and the store's suite says what it found.

Installed with Holdfast, found by pytest itself, before any test is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.testing.runner import Runner

# Else a backend's author reads `AssertionError` and nothing more, wherever pytest did not find this plugin by itself.
pytest.register_assert_rewrite("holdfast.testing.stores")


@pytest.fixture
def durable_runner() -> Iterator[Callable[..., Runner]]:
    """Makes a `holdfast.testing.Runner` for a function: `runner = durable_runner(process_order, stubs={"charge": 1})`."""
    from holdfast.testing.runner import Runner  # only a test that uses it pays for the import

    with ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Runner:
            return stack.enter_context(Runner(*arguments, **settings))

        yield make
