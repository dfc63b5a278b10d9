from pathlib import Path

import pytest

from tests.flow.harness import Harness


@pytest.fixture(params=[10_000, 0], ids=["resting", "replayed"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """Every flow runs twice: waiting coroutines stay in memory, and are replayed at every wake."""
    return Harness(tmp_path, request.param)
