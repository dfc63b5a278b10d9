"""The console's tests have a store with a console, or a whole server that also runs workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.scene import Scene
from tests.console.scene import scene as open_scene
from tests.console.serving_scene import ServingScene, serving


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with open_scene(tmp_path) as opened:
        yield opened


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ServingScene]:
    with serving(tmp_path) as opened:
        yield opened
