"""What every test may lean on. Fixtures of one folder live in that folder's conftest; this one stays small."""

import signal
from pathlib import Path

import pytest

# A shell starts what it runs in the background with interrupts ignored, and a test's processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder, wherever pytest was started."""
    return ROOT
