"""What every test may lean on. Fixtures of one folder live in that folder's conftest; this one stays small."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.model.clock import SystemClock
from holdfast.model.ids import Ids, id_at
from tests import checkout, costs, forks, memory, parts

# A shell starts what it runs in the background with interrupts ignored, and a test's processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent

gc.disable()  # while ten thousand tests are loaded: none of them is garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parts.add_options(parser)
    costs.add_options(parser)
    forks.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    parts.choose(config)
    costs.watch(config)
    checkout.watch(config, ROOT)
    forks.choose(config)
    memory.choose(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # the tests themselves stay, so that a collection in one of them need not look through all the others
    gc.enable()


@pytest.fixture(autouse=True)
def _ids_of_now() -> Iterator[None]:
    """A test may let the process make ids of a later time than now. Ids only grow, so all later ids of the process would be of that time,
    and the next test would not find its runs among those of the last hour. So the ids go back to now after such a test."""
    yield
    now = SystemClock().now()
    assert isinstance(id_at, Ids)
    if id_at._last > now:
        id_at._last = now


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder, wherever pytest was started."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, and no process that a test starts, reads or writes the configuration of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield
