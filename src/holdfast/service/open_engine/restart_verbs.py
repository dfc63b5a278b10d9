"""The methods of an open engine that do work again: retry and restart a run, restart an execution, compare two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.model.audit import principal
from holdfast.model.errors import ExecutionNotFound, FunctionNotFound, InvalidParameter
from holdfast.model.ids import Arn, checked_mention
from holdfast.model.threads import Purpose, in_thread
from holdfast.service.open_engine.open_execution import OpenExecution, input_text

if TYPE_CHECKING:  # a program without workers does not load their modules
    from holdfast.contract.protocol import Response
    from holdfast.pipelines.restart.compare import Comparison
    from holdfast.pipelines.restart.restart_plan import RestartPlan
    from holdfast.restarts.runs import RestartAsked
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime
    from holdfast.workers.run_lookup import Caller


class RestartVerbs:
    """The methods of an open engine for restarts and comparisons."""

    _engine: Engine
    _runtime: WorkerRuntime | None
    _functions: Mapping[tuple[str, str], DurableFunction]

    async def retry(self, run_id: str, *, wait: float | None = None) -> Response:
        """Start a new run that does the failed part of an earlier run again. The other results of the earlier run are reused. Waits until
        the new run has ended, waits for a person or is quarantined, at most `wait` seconds (None: no limit), and returns its response.
        Raises `RestartRefused` if the earlier run cannot be retried: for example, it has not ended, or nothing of it failed. Raises
        `InvalidParameter` if the engine has no workers."""
        from holdfast.restarts.runs import RETRY

        return await self._restarted(run_id, RETRY, wait)

    async def restart(
        self,
        run_id: str,
        *,
        nodes: str | Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        resend: str | Sequence[str] = (),
        wait: float | None = None,
    ) -> Response:
        """Restart a run of a pipeline: `nodes` and all nodes after them run again. Any other node is reused if it ended well, was not
        undone, and its inputs, its worker and the worker's code are the same; of a map that did not end well, the good items are reused.
        With `inputs`, the new run gets other inputs; a run of a worker can be restarted only with other inputs. Waits until the new run has
        ended, waits for a person or is quarantined, at most `wait` seconds (None: no limit), and returns its response. Raises
        `RestartRefused` if the run cannot be restarted, and `InvalidParameter` if neither `nodes` nor `inputs` are given.

        Writes that earlier runs made are not made again; if a write has other arguments now, a person is asked. Only the nodes in `resend`
        make their writes again; each of them must be one of `nodes`, or come after one.
        """
        from holdfast.restarts.runs import restart_asked

        asked = restart_asked(nodes, inputs, resend)
        if asked.is_retry:
            raise InvalidParameter("A restart needs the nodes that run again, or other inputs. `retry` runs only what failed.")
        return await self._restarted(run_id, asked, wait)

    async def plan_restart(
        self,
        run_id: str,
        *,
        nodes: str | Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        resend: str | Sequence[str] = (),
    ) -> RestartPlan:
        """The plan of a restart: what it would reuse and what it would run again, and why. Without `nodes`, `inputs` and `resend` it is the
        plan of `retry`. Nothing starts."""
        from holdfast.restarts.runs import prepare, restart_asked

        asked, service = restart_asked(nodes, inputs, resend), self._serving().worker_service
        return (await in_thread(Purpose.STORE, prepare, self._engine.store, run_id, self._caller(), asked, service)).plan

    async def compare(self, a: str, b: str) -> Comparison:
        """Compare two runs of one worker or pipeline: inputs, outputs, status and, for a pipeline, each node with its verdict, time and
        cost. Raises `InvalidParameter` if they are runs of different workers or pipelines."""
        from holdfast.restarts.comparisons import compare_runs

        return await in_thread(Purpose.STORE, compare_runs, self._engine.store, a, b, self._caller())

    async def restart_execution(self, execution: str, operation: str, *, input: object = ...) -> OpenExecution:
        """Restart an execution of a durable function from an operation, which is given by its name or id. The new execution begins with
        what had ended in the old history before the operation. First the function's code is replayed on that part. If the code does not
        match it, raises `RestartRefused` or `NonDeterministicExecutionError`, and nothing starts. The old execution stays. Without `input`,
        the new execution gets the old input. Raises `FunctionNotFound` if the engine does not have the function."""
        from holdfast.restarts.executions import prepare_execution

        wanted = Arn.parse(execution).id if checked_mention(execution).startswith("arn:") else execution
        header = self._engine.store.find(wanted)
        if header is None:
            raise ExecutionNotFound(f"There is no execution {execution!r:.100}.")
        hosted = [one for (name, _), one in self._functions.items() if name == header.function]
        if not hosted:
            raise FunctionNotFound(
                f"{header.function!r} is not a function of this engine, so its code cannot be replayed. Give the function to the engine. "
                "Restart a run of a worker or a pipeline with `restart`."
            )
        text = None if input is ... else input_text(input)
        prepared = await in_thread(Purpose.HOUSE, prepare_execution, self._engine.store, wanted, hosted[-1], operation, text)
        caller = self._caller()
        made = await self._engine.restart(lambda identity, now: prepared.write(identity, now, caller))
        return OpenExecution(self._engine, made, self._functions)

    async def _restarted(self, run_id: str, asked: RestartAsked, wait: float | None) -> Response:
        from holdfast.restarts.runs import restart_run

        service = self._serving().worker_service
        header, accepted = await restart_run(service, run_id, self._caller(), asked)
        return await service.wait_for(header, accepted, wait=wait)

    def _serving(self) -> WorkerRuntime:
        if self._runtime is None:
            raise InvalidParameter('No workers are served here: open the engine with workers=["worker.py"].')
        return self._runtime

    def _caller(self) -> Caller:
        from holdfast.workers.run_lookup import Caller

        return Caller(principal=principal())
