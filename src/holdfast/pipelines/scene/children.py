"""Child runs of a pipeline: how a node, or one item of a map, runs a worker and waits for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from holdfast.contract.protocol import Response
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import started
from holdfast.model.operations import OPEN, Operation, Order, Status, Update
from holdfast.pipelines.graph.graph import Template, parted
from holdfast.pipelines.record.operations import NodePosition, run_at, wait_at
from holdfast.pipelines.record.records import Records
from holdfast.pipelines.record.responses import was_refused
from holdfast.pipelines.restart.forerunners import Earlier
from holdfast.pipelines.scene.environment import RunService
from holdfast.pipelines.scene.mismatch import edge_error
from holdfast.pipelines.scene.run_values import Values
from holdfast.workers.accepted_request import AcceptedRequest, Budget, Labels
from holdfast.workers.child_requests import ChildRequest

MAX_WAIT_SECONDS: Final = 31_622_400
REVISION: Final = "revision"
"""The name of the input in which a worker gets what a gate wants changed. Only a worker whose input schema has a field of this name gets
it."""

Inputs = Callable[[], Awaitable[dict[str, Any]]]
"""A function that makes the inputs of a child run. It is called only if the run has not begun."""


class TimeOver(Exception):
    """The time limit of the node is over, so the node may begin nothing new."""


class ChildRuns:
    """Runs workers for one node, in one round and in one try of the node, or for one item of a map."""

    def __init__(
        self,
        records: Records,
        service: RunService,
        values: Values,
        accepted: AcceptedRequest,
        position: NodePosition,
        *,
        budget: tuple[Budget, ...] = (),
        labels: Labels,
        parent_span_id: str | None = None,
        is_over: bool = False,
    ) -> None:
        self.records = records
        self.position = position
        self.awaited: list[Identity] = []
        """The operations that the node waits for."""
        self._service = service
        self._values = values
        self._accepted = accepted
        self._budget = budget
        self._labels = labels
        self._parent_span_id = parent_span_id
        self._is_over = is_over

    @property
    def revision(self) -> Mapping[str, Any] | None:
        """What a gate wants changed; None if no gate asked for a revision. Here always None: subclasses override it."""
        return None

    def given(self, inputs: dict[str, Any]) -> Inputs:
        """An async function without arguments that returns these inputs, for the argument `inputs` of `run`."""

        async def known() -> dict[str, Any]:
            return inputs

        return known

    async def run(self, worker: str, inputs: Inputs, *, part: str = "work", number: int = 1, template: Template = None) -> Response | None:
        """Begin a child run of a worker or a pipeline, or find its response. Does not wait for the child run: returns None until it has
        ended. In a restarted run this may return the response of an earlier run; then no child run begins.

        `part` and `number` name the run inside the node (`run_at`). `template` is the template from which the inputs were made; errors use
        it to name the edges of the graph. Raises TimeOver if the run has not begun and the time limit of the node is over.
        """
        at = run_at(self.position, part, number)
        known = self.records.find(at)
        if known is not None and known.status not in OPEN:
            return self._told(known, template)
        if known is None and (reused := self.records.reused(at)) is not None:
            return reused.answer
        if known is None:
            self.check_time()
            start = await self._start(at, worker, part, await inputs())
            if isinstance(start, Response):
                return start
            self.begin(start)
        self.awaits(at)
        return None

    def earlier(self, at: Identity, worker_id: str, part: str) -> Earlier:
        """What earlier runs did at the place of a child run, for a run that restarts them. Here always empty: subclasses override it."""
        return Earlier()

    def _told(self, known: Operation, template: Template) -> Response:
        """The response that `known`, the recorded operation of the child run, has. If the request was refused because its inputs do not
        fit, or name an artifact that does not exist, the error names the edges from which the inputs came."""
        response = self.records.response(known)
        if (
            not was_refused(response)
            or response.error is None
            or response.error.error_code not in ("schema_mismatch", "artifact_not_found")
        ):
            return response
        return edge_error(self.position.node, template, response)

    async def _start(self, at: Identity, worker: str, part: str, inputs: dict[str, Any]) -> Update | Response:
        """The update that starts a child run, or that records its refusal; or the response of an earlier run that did the same work."""
        worker_id, version = parted(worker)
        revision, earlier = self.revision, self.earlier(at, worker_id, part)
        if revision is not None and self._takes_revision(worker_id, version):
            inputs = {**inputs, REVISION: revision}
        request = ChildRequest(
            worker_id=worker_id,
            version=version,
            inputs=await self._values.inputs(inputs),
            budget=self._budget,
            labels=self._labels,
            parent_span_id=self._parent_span_id,
            part=part,
            link=earlier.link,
        )
        accepted = await self._service.accept_child(self.records.journal.header, self._accepted, at, request)
        # A refusal is recorded as the operation's failure, so that a replay finds the same refusal.
        order, refused = (accepted, None) if isinstance(accepted, Order) else (None, accepted)
        if order is not None and (reused := earlier.reusable(order)) is not None:
            return self.records.reuse(at, reused).answer
        return started(at, function_name=worker_id, order=order, error=refused)

    def _takes_revision(self, worker_id: str, version: str | None) -> bool:
        contract = self._service.contract(worker_id, version)
        return contract is not None and REVISION in contract.input_schema.get("properties", {})

    def wait(self, part: str, seconds: float, number: int = 1) -> bool:
        """Begin a durable wait of this node, or look whether it has ended. Does not block: returns False while the wait lasts, and True
        after it, or if an earlier run has waited at this place (`has_waited`). `part` and `number` name the wait inside the node. `seconds`
        is rounded to a whole number from 1 to MAX_WAIT_SECONDS. Raises TimeOver if the time limit of the node is over and the wait has not
        begun, or was cancelled because of that limit."""
        at = wait_at(self.position, part, number)
        known = self.records.find(at)
        if known is not None and known.status is Status.CANCELLED:
            self.check_time()
        if (known is not None and known.status not in OPEN) or (known is None and self.has_waited(at)):
            return True
        if known is None:
            self.check_time()
            self.begin(started(at, wait_seconds=min(MAX_WAIT_SECONDS, max(1, round(seconds)))))
        self.awaits(at)
        return False

    def has_waited(self, at: Identity) -> bool:
        """Whether an earlier run, which this run restarts, has waited at this place. Then this run does not wait. Here always False: a
        subclass overrides it."""
        return False

    # --- how they are recorded

    def begin(self, *updates: Update) -> None:
        """Add these updates, and the update that the node has begun, to the next write. They are dropped if the run ends before that
        write."""
        self.records.begin(self.position.node, self.position.round)
        self.records.wish(*updates)

    def awaits(self, at: Identity) -> None:
        """Note that the node waits for this operation. The run rests until one of the awaited operations has ended; then the node is called
        again."""
        self.awaited.append(at)
        self.records.awaits(at)

    def check_time(self) -> None:
        """Raise TimeOver if the time limit of the node is over."""
        if self._is_over:
            raise TimeOver
