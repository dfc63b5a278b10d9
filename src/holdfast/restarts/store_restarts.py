"""Restarts of runs and executions without an engine, and comparisons of runs. A runner claims and runs what is started here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.durable.execution import DurableFunction
from holdfast.engine.restarts import RestartStore
from holdfast.model.audit import Actor, principal
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution
from holdfast.model.ids import IdSource
from holdfast.restarts.comparisons import compare_runs
from holdfast.restarts.executions import PreparedExecution, prepare_execution
from holdfast.restarts.runs import PreparedRestart, prepare, restart_asked, restart_in_store, written
from holdfast.workers.run_lookup import Caller

if TYPE_CHECKING:
    from holdfast.pipelines.restart.compare import Comparison


class StoreRestarts:
    """Restarts and comparisons, for an operator."""

    def __init__(self, store: RestartStore, clock: Clock, ids: IdSource, actor: Actor | None) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._caller = Caller(principal=principal(), actor=actor)

    def prepare(
        self,
        run_id: str,
        *,
        nodes: str | Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        resend: str | Sequence[str] = (),
    ) -> PreparedRestart:
        """Check the restart of a run, and plan it. Nothing is written. `nodes` and all nodes after them run again. `inputs` replace the
        inputs of the run. A write that the earlier run made is not made again, except the writes of the nodes in `resend`; these nodes must
        be among those that `nodes` lets run again. Without these three it is a retry: the parts that failed run again. Raises
        RestartRefused if the run cannot be restarted, ExecutionNotFound if there is no such run, NodeNotFound if the pipeline has no such
        node, and InvalidParameter or InvalidRequest if an argument is not allowed."""
        return prepare(self._store, run_id, self._caller, restart_asked(nodes, inputs, resend))

    def restart(self, prepared: PreparedRestart) -> Execution:
        """Start a prepared restart. A runner that serves the worker or the pipeline runs it, with the graph of the earlier run. Raises
        InvalidRequest if new inputs of a pipeline do not fit, and ExecutionAlreadyStarted if the run was restarted after it was
        prepared."""
        return restart_in_store(self._store, prepared, self._caller, self._clock, self._ids)

    def compare(self, a: str, b: str) -> Comparison:
        """Compare two runs of one worker or pipeline: inputs, outputs, status and, for a pipeline, each node with its verdict, time and
        cost. Raises InvalidParameter if they are runs of different workers or pipelines."""
        return compare_runs(self._store, a, b, self._caller)

    def prepare_execution(self, execution: str, function: DurableFunction, operation: str, input: str | None = None) -> PreparedExecution:
        """Check the restart of an execution from an operation. This replays the code of the function; nothing is written. `input` is the
        new input; None: the old one. Raises ExecutionNotFound or OperationNotFound if there is no such execution or operation,
        InvalidParameter if it is an execution of another function, RestartRefused if it cannot be restarted, and RestartRefused or
        NonDeterministicExecutionError if the code does not match the history."""
        return prepare_execution(self._store, execution, function, operation, input)

    def restart_execution(self, prepared: PreparedExecution) -> Execution:
        """Start a prepared restart. A runner that hosts the function runs it. Raises ExecutionAlreadyStarted if the execution was restarted
        meanwhile."""
        now = self._clock.now()
        return written(self._store, prepared.write(self._ids(now), now, self._caller), now)
