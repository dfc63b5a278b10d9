"""What a pipeline's run needs from the service that runs it, and where graphs are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from holdfast.contract.terms import Contract
from holdfast.durable.identifier import Identity
from holdfast.model.execution import Execution
from holdfast.model.operations import Failure, Order
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.steps.steps import STEP_SECONDS, StepDone, StepFailure
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.child_requests import ChildRequest
from holdfast.workers.earlier_runs import EarlierRun
from holdfast.workers.policy import Policy
from holdfast.workers.run_reporters import LiveRunReporter


class Graphs(Protocol):
    """Graphs by their hash."""

    def find(self, sha256: str) -> Graph | None:
        """The graph with this hash; None if this runner does not know it."""
        ...


class StepCalls(Protocol):
    """Calls the step functions of pipelines (steps.steps.Steps)."""

    async def call(
        self, package: str, function: str, inputs: Any, *, seconds: float = STEP_SECONDS, tenant: str = ""
    ) -> StepDone | StepFailure:
        """Call one function of a package (`Graph.steps`) with JSON. If the step fails, the result is a StepFailure. Raises WorkerMissing if
        the package is not on this machine, WorkerChanged if its files have changed, and Overloaded or SandboxUnavailable if no sandbox can
        run it."""
        ...


class RunService(Protocol):
    """The part of the worker service that a pipeline's run uses."""

    @property
    def policy(self) -> Policy: ...
    @property
    def artifacts(self) -> Artifacts: ...
    def contract(self, worker_id: str, version: str | None) -> Contract | None:
        """The contract of a worker in this version. `version` None: the version that new runs get. Returns None if the worker is not
        served here in that version."""
        ...

    def reporter(self, header: Execution, accepted: AcceptedRequest, contract: Contract) -> LiveRunReporter:
        """The object that reports this run to the observers of the process and to the run's followers."""
        ...

    def waits(self, run_id: str) -> None:
        """Tell the callers that wait for this run that it now waits for a person."""
        ...

    async def accept_child(
        self, parent: Execution, accepted: AcceptedRequest | None, at: Identity, request: ChildRequest
    ) -> Order | Failure:
        """Check and accept the request for a child run. Returns the Order that starts the child run. If the request is refused, returns
        the Failure with which the parent's operation for the child run ends."""
        ...

    async def earlier_run(self, run_id: str, tenant: str) -> EarlierRun | None:
        """The run with this id, for a run that restarts it. None if retention has removed it, if it belongs to another tenant, or if it is
        not a run."""
        ...

    async def holders(self) -> Mapping[str, str]:
        """For each credential that a person holds, by the id of the credential: the name of the person."""
        ...

    async def cancel_child(self, parent: str, operation_id: str) -> None:
        """Cancel the child run that an operation of the execution `parent` waits for. A child run that has ended is not changed."""
        ...

    async def withdraw(self, run_id: str, operation_id: str) -> None:
        """Withdraw a question of a run. Nothing happens if the question is closed already."""
        ...
