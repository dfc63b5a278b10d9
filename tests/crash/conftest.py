"""A scene for each crash test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import memory
from tests.crash.scene import Scene


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On the disk: crash tests are about what is there."""
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory.disk(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A store, and no worker yet. Whatever happens, no process is left."""
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()
