"""A scene for each crash test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A store, and no worker yet. Whatever happens, no process is left."""
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()
