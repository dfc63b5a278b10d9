"""The server in whose process the console runs: its workers and pipelines with their contracts, its functions with their code, and its
engine's event loop.

Pages run in threads of the console. When a page needs something that only the engine's event loop may do, it calls `do`, which waits a
bounded time for the result. `holdfast console` runs without such a server, and its pages get no `ServerProcess`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from holdfast.contract.refusals import Overloaded
from holdfast.contract.terms import Contract
from holdfast.durable.execution import DurableFunction
from holdfast.model.execution import Execution
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.workers.service import WorkerService

T = TypeVar("T")
_PATIENCE_SECONDS: Final = 20.0


class ServerProcess:
    """The workers, pipelines and functions of one server, for pages in other threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        workers: WorkerService | None = None,
        functions: Sequence[DurableFunction] = (),
        look_for_work: Callable[[], None] = lambda: None,
        logs: Callable[[Execution], Sequence[Mapping[str, Any]]] = lambda _: (),
        dead_letters: Callable[[int], Mapping[str, Sequence[Mapping[str, Any]]]] = lambda _: {},
    ) -> None:
        self._loop = loop
        self.workers = workers
        """Accepts requests for runs; None on a server without workers."""
        self._functions: Mapping[str, DurableFunction] = {one.name: one for one in functions}
        self._look_for_work = look_for_work
        self.logs = logs
        """Reads what an execution of a function logged: records with `message` and `level`; a record of a step also has `operationId`."""
        self.dead_letters = dead_letters
        """Reads the newest dead letters of this server's sinks, by the sink's name. The argument says how many of each sink it reads at
        most."""

    def names(self) -> Sequence[str]:
        """The ids of the workers and pipelines that this server serves."""
        return [] if self.workers is None else list(self.workers.served)

    def functions(self) -> Sequence[str]:
        """The names of the durable functions whose code this process has."""
        return list(self._functions)

    def contracts(self, name: str) -> Sequence[Contract]:
        """The contracts of a worker or a pipeline, one for each version that this server has. The last contract is that of the version
        which runs when a request names no version. Empty if this server does not have the worker or the pipeline."""
        versions = {} if self.workers is None else self.workers.served.get(name, {})
        return [one.worker.contract for one in list(versions.values())]

    def graph(self, name: str) -> Graph | None:
        """The graph of a pipeline, in the version that runs when a request names no version. None if this server has no pipeline of this
        name."""
        versions = {} if self.workers is None else self.workers.served.get(name, {})
        newest = list(versions.values())[-1:]
        return newest[0].graph if newest and isinstance(newest[0], ServedPipeline) else None

    def function(self, name: str) -> DurableFunction | None:
        """The durable function of this name, with its code; None if this process does not have the code."""
        return self._functions.get(name)

    def do(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float = _PATIENCE_SECONDS) -> T:
        """Run the coroutine that `work` makes on the engine's event loop, and block until the coroutine has ended. Returns its result, or
        raises its error. If the coroutine has not ended after `seconds`, cancels it and raises Overloaded."""
        begun = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return begun.result(seconds)
        except TimeoutError:
            if not begun.cancel():  # the coroutine has ended: the error is its own, or it ended in the last moment
                return begun.result()
            raise Overloaded(
                "The server did not answer in time. Look in the list of runs whether the run has begun. If it has not, try again."
            ) from None

    def look_for_work(self) -> None:
        """Tell the runner of this server to look for work in the store now, and not only at its next poll."""
        self._loop.call_soon_threadsafe(self._look_for_work)
