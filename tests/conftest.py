"""What every test may lean on. Fixtures of one folder live in that folder's conftest; this one stays small."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder, wherever pytest was started."""
    return ROOT
