"""The scene of a node: everything that a node may ask for while it runs. The code of a node kind gets the node and its scene, and nothing
else.

Child runs, waits and questions to persons work in the same way. If the result is recorded, the scene returns it; until then it returns None
(False for a wait). If the child run, the wait or the question has not begun, the scene adds its start to the next write, together with what
the other nodes ask for. So the code of a node kind reads from top to bottom, and does not wait for these results itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.model.operations import OPEN
from holdfast.pipelines.graph.graph import AnyNode, Template, parted
from holdfast.pipelines.graph.resolved_templates import MapItem, Unresolved
from holdfast.pipelines.graph.templates import INDEX, ITEM
from holdfast.pipelines.record.operations import NodePosition, question_at
from holdfast.pipelines.record.results import NodeError
from holdfast.pipelines.restart.forerunners import Earlier
from holdfast.pipelines.scene.children import ChildRuns
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.mismatch import no_object_error, unresolved_error
from holdfast.workers.accepted_request import Labels
from holdfast.workers.approvals import ApprovalPlace, AskKind, Decision, Requested, arguments_hash, decision_of
from holdfast.workers.demands import demands_of


class NotReached(Exception):
    """A template refers to a result that another node (`source`) does not have, because that node was skipped or blocked. The node that has
    the template is skipped, unless its code catches this error."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.source = source


class CannotRun(Exception):
    """The node cannot do its work, and fails with `error`."""

    def __init__(self, error: NodeError) -> None:
        super().__init__(error.message)
        self.error = error


class Silence(msgspec.Struct, frozen=True):
    """The question ended without a decision: no person answered in time, or the question was withdrawn."""


class Scene(ChildRuns):
    """What one node may ask for, in one round and one try (`NodePosition`)."""

    def __init__(
        self, run: PipelineRun, node: AnyNode, position: NodePosition, *, is_over: bool = False, results: Mapping[str, Any] | None = None
    ) -> None:
        """`is_over`: whether the time limit of the node is over. `results`: the results to use in place of those of the run (an undo gets
        the results of the round that it undoes); None: those of the run."""
        super().__init__(
            run.records,
            run.service,
            run.values,
            run.accepted,
            position,
            budget=run.budgets(node),
            labels=Labels(pipeline=run.contract.worker_id, node=node.name, round=position.round),
            parent_span_id=run.records.reporter.node_span(node.name, position.round),
            is_over=is_over,
        )
        self.run_state = run
        self.node = node
        self._results = results

    # --- values

    async def value(self, template: Template, *, item: MapItem | None = None) -> Any:
        """The value of a template. Raises NotReached if the template refers to a result that a skipped or blocked node does not have.
        Raises CannotRun with `edge_mismatch` if the template has no value for another reason. Raises ArtifactMissing or PayloadNotJson if
        an artifact whose content it needs is missing or is not JSON."""
        run = self.run_state
        results = run.results(run.structure.needs[self.node.name]) if self._results is None else self._results
        found = await run.values.value(template, results, item)
        if not isinstance(found, Unresolved):
            return found
        needs = run.structure.needs
        settled = run.settled(found.source) if found.source in needs else None
        if settled is not None and (found.reason == "no_result" or (found.reason == "missing" and settled.state == "blocked")):
            raise NotReached(found.source)
        raise CannotRun(unresolved_error(self.node.name, found))

    async def inputs(self, template: Template) -> dict[str, Any]:
        """The value of a template that makes the inputs of a worker. Raises CannotRun if the value is not an object, and NotReached,
        CannotRun, ArtifactMissing and PayloadNotJson as `value` does."""
        found = await self.value(template)
        if not isinstance(found, dict):
            raise CannotRun(no_object_error(self.node.name))
        return found

    async def opened(self, template: Template) -> Any:
        """The value of a template; if it is an artifact, its content. Artifacts inside are not opened. Raises the same errors as
        `value`."""
        return await self.run_state.values.opened(await self.value(template))

    async def whole(self, template: Template) -> Any:
        """The value of a template with every artifact in it opened, for code of the runner that judges or merges it."""
        return await self.run_state.values.whole(await self.value(template))

    async def kept(self, document: dict[str, Any]) -> dict[str, Any]:
        """A result document in the form that the history keeps: if it is large, its largest members are moved into artifacts."""
        return await self.run_state.values.kept(document)

    async def closed_template(self, template: Template) -> tuple[Template, list[Any]]:
        """Resolve all references of a template except those to `item` and `index`. Returns a new template and a list of values: in the new
        template, each resolved reference is replaced by a reference into that list, whose source is named `values`."""
        values: list[Any] = []
        return await self._closed(template, values), values

    async def _closed(self, part: Template, values: list[Any]) -> Template:
        if isinstance(part, list | tuple):
            return [await self._closed(inner, values) for inner in part]
        if not isinstance(part, dict) or "$const" in part:
            return part
        if "$from" not in part:
            return {name: await self._closed(inner, values) for name, inner in part.items()}
        if part["$from"] in (ITEM, INDEX):
            return part
        values.append(await self.value(part))
        return {"$from": "values", "path": [len(values) - 1]}

    def in_try(self, try_number: int) -> Scene:
        """The scene of the same node in the same round, but in another try."""
        return Scene(self.run_state, self.node, NodePosition(self.position.node, self.position.round, try_number), results=self._results)

    def is_lost(self, source: str) -> bool:
        """Whether a result that the author wanted from the node `source` is missing or partial (`Settled.lost`)."""
        settled = self.run_state.settled(source)
        return settled is not None and settled.lost

    def output_schema(self, worker: str) -> dict[str, Any] | None:
        """The output schema of a worker; None if the worker is not served here."""
        contract = self.run_state.service.contract(*parted(worker))
        return None if contract is None else contract.output_schema

    @property
    def who(self) -> str:
        """A text made from the tenant and the pipeline of this run. Checks that may take long are queued by it, so that many checks
        of one tenant's pipeline do not hold up those of another."""
        return f"{self.run_state.accepted.tenant}/{self.run_state.contract.worker_id}"

    @property
    def revision(self) -> Mapping[str, Any] | None:
        """What the gate wants changed, for the first node of a validation loop: the round, the reasons of the gate, and the previous
        outputs of the node. None in the first round and for other nodes."""
        run, round = self.run_state, self.position.round
        loop = run.structure.loops.get(self.node.name)
        if loop is None or loop.first != self.node.name or round == 1:
            return None
        asked, before = run.document(loop.gate, round - 1) or {}, run.document(self.node.name, round - 1) or {}
        return {"round": round, "reasons": asked.get("reasons", []), "previous": before.get("outputs")}

    # --- earlier runs

    def earlier(self, at: Identity, worker_id: str, part: str) -> Earlier:
        """What earlier runs of this pipeline did at the place of a child run. Empty if this run restarts no other run."""
        forerunners = self.run_state.forerunners
        return Earlier() if forerunners is None else forerunners.child(self.node, self.position, part, at, worker_id)

    def has_waited(self, at: Identity) -> bool:
        """Whether an earlier run, which this run restarts, has already waited at this place. If so, this run records the wait as reused,
        and does not wait."""
        forerunners, known = self.run_state.forerunners, self.records.reused(at)
        if known is None and forerunners is not None and (found := forerunners.wait(self.node, self.position.round, at)) is not None:
            known = self.records.reuse(at, found)
        return known is not None

    def _decided_before(self, place: ApprovalPlace, asked: Requested) -> Decision | None:
        """The decision about exactly the same question that was made in an earlier run; None if there is no such decision, or if it may
        not be reused."""
        forerunners, known = self.run_state.forerunners, self.records.reused(place.callback)
        if known is None and forerunners is not None:
            found = forerunners.decision(self.node, self.position.round, place, asked)
            known = None if found is None else self.records.reuse(place.callback, found)
        return None if known is None else known.decision

    # --- people and time

    def ask(
        self,
        kind: AskKind,
        part: str,
        shown: dict[str, Any],
        *,
        question: str,
        within: int,
        schema: dict[str, Any] | None = None,
        demands: Mapping[str, Any] | None = None,
        number: int = 1,
    ) -> Decision | Silence | None:
        """Ask a person, or find the decision if the question was asked before. The decision is bound to the hash of what is shown. Does not
        block. Returns None while the question is open, the Decision when it is decided, and Silence if the question ended without a
        decision. In a restarted run it may return the decision of an earlier run about the same question.

        `part` and `number` name the question inside the node. `within` is the time limit in seconds; 0 means none. `schema` is the JSON
        Schema that an answer must fit; None: the person approves or rejects. `demands` say who decides (workers.demands); without
        `demands`, the operator's approvers decide. Raises TimeOver if the question is not asked yet and the time limit of the node is over.
        """
        place = question_at(kind, self.position, part, number)
        known = self.records.find(place.callback)
        if known is not None and known.status not in OPEN:
            return decision_of(known) or Silence()
        if known is None:
            run = self.run_state
            request = Requested(
                kind=kind,
                tool=self.node.name,
                node=self.node.name,
                arguments=shown,
                arguments_sha256=arguments_hash(shown),
                requested_by=run.accepted.requested_by,
                question=question or None,
                schema=schema,
                **(demands or demands_of(run.service.policy)),
            )
            if (decided := self._decided_before(place, request)) is not None:
                return decided
            self.check_time()
            self.begin()
            self.records.ask(place, request, within)
        self.awaits(place.callback)
        return None
