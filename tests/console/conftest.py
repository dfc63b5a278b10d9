"""The console's tests have a store with a console."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.scene import Scene
from tests.console.scene import scene as open_scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with open_scene(tmp_path) as opened:
        yield opened
