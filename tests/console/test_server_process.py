"""What a page asks of the engine's event loop: it gets the result or the error of its coroutine, and does not wait for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from holdfast.console.server_process import ServerProcess
from holdfast.contract.refusals import Overloaded


@pytest.fixture
def served() -> Iterator[ServerProcess]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield ServerProcess(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_coroutine_that_does_not_end_in_time_is_cancelled_and_the_server_is_overloaded(served: ServerProcess) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    async def alone() -> None:
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    with pytest.raises(Overloaded, match="did not answer in time"):
        served.do(endless, seconds=0.01)
    served.do(alone)


def test_a_timeout_of_the_coroutine_itself_is_its_own_error(served: ServerProcess) -> None:
    async def late() -> None:
        raise TimeoutError("the tool did not answer")

    with pytest.raises(TimeoutError, match="the tool did not answer"):
        served.do(late)
