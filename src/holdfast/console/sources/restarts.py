"""Restarts for one caller: restarts and retries of runs, and restarts of executions. The page shows the plan of a restart before it is
started.

If the console's server serves the worker or the pipeline, a restart of its run uses the code that is served now. If not, or without a
server, the restart keeps the graph of the earlier run. A durable function can restart from an operation only in a process that has its
code, because the code is replayed on the part of the history that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.schema_form import loads
from holdfast.console.sources.contracts import contract_of, encoded, same, with_secrets, without_secrets
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.viewer import CallerSource
from holdfast.contract.checking import told_of
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.refusals import InvalidRequest
from holdfast.descriptions.pipeline_view import PipelineView, pipeline_view
from holdfast.engine.restarts import check_restartable, restarted
from holdfast.hosts.evaluator.schema_check import problems_now
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import FAILED_STATUSES, Execution
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import Operation, Type
from holdfast.model.operations import Status as OperationStatus
from holdfast.model.restart_errors import RestartRefused
from holdfast.model.shown_status import ShownStatus
from holdfast.model.starts import Restart
from holdfast.pipelines.restart.restart_plan import NodePlan
from holdfast.restarts.executions import PreparedExecution, prepare_execution
from holdfast.restarts.runs import RETRY, RestartAsked, prepare, restart_in_store, restart_run, written
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.run_lookup import accepted_in, calls_of, find_run, response_of

MOST_PLACES: Final = 200
"""A person chooses from at most this many nodes or operations."""
_MOST_WRITES: Final = 50
_MOST_RUNS: Final = 100
_BROKEN: Final = frozenset({OperationStatus.FAILED, OperationStatus.TIMED_OUT, OperationStatus.STOPPED})


class RestartPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A node or an operation from which work can begin again."""

    key: str
    """The node's name, or the operation's id."""
    name: str
    kind: str
    state: str
    plan: NodePlan | None = None
    note: str = ""


class MadeWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that the earlier run made, in a part that runs again. The new run does not make the write again, unless the node of the write
    is in `RestartChoice.resend`, or the earlier run undid the node. If the new run would make it with other arguments, a person is asked
    first."""

    node: str
    run: str
    tool: str
    arguments: Any
    known: bool
    """True if it is known that the write happened. False if it is not known whether it happened."""


class RestartChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What a person chose on the page of a restart."""

    place: str = ""
    """Where the restart begins: the key of a `RestartPlace`. If it is empty, a restarted run repeats only what failed and what an edited
    input changes, and a restarted execution of a function begins from its start."""
    text: str | None = None
    """The input as the form has it, edited or not; None means the old input."""
    resend: tuple[str, ...] = ()


class RestartView(msgspec.Struct, frozen=True, kw_only=True):
    """One run or execution, and what its restart would do."""

    header: Execution
    status: ShownStatus
    is_run: bool
    is_pipeline: bool = False
    refusal: str = ""
    """Why this run or execution cannot be restarted at all; empty if it can."""
    places: tuple[RestartPlace, ...] = ()
    """All nodes of a pipeline's run, or the first MOST_PLACES operations of an execution of a function. Empty for a run of a worker, and
    for a function whose code is not in this process."""
    cut: bool = False
    """Whether there are more than MOST_PLACES nodes or operations: the page offers at most the first MOST_PLACES as places."""
    choice: RestartChoice = RestartChoice()
    shown: str = "null"
    """The old input, as JSON. In the inputs of a run, placeholders stand for the secrets. The input of a function is shown as it is."""
    can_retry: bool = False
    needs_code: bool = False
    """Whether the function can only restart from its beginning, because its code is not in this process."""
    problem: str = ""
    """What is wrong with the choice or the input."""
    problems: tuple[str, ...] = ()
    """Where the input does not fit the contract: at most 20 places."""
    kept: tuple[str, ...] = ()
    """The operations of an execution whose results the restart reuses, by name or id."""
    again: tuple[str, ...] = ()
    """The operations of an execution that the restart runs again, by name or id."""
    writes: tuple[MadeWrite, ...] = ()
    last_cost: int | None = None
    """What the parts that run again cost in the earlier run, in billionths of a dollar. If there is no plan for single nodes, what the
    whole earlier run cost. None if the cost is not known."""
    may_cost: int | None = None
    """The most that the new run may cost, in billionths of a dollar; None if that is not known."""
    may_use: int | None = None
    """The most tokens that the new run may use; None if that is not known."""
    edited: bool = False

    @property
    def offered(self) -> tuple[RestartPlace, ...]:
        """The places that the page offers: the first MOST_PLACES."""
        return self.places[:MOST_PLACES]

    @property
    def is_ready(self) -> bool:
        """Whether the restart that the page shows can be started."""
        return not (self.refusal or self.problem or self.problems)


class RestartSource(CallerSource):
    """Plans and starts restarts for one caller."""

    def view(self, execution: str, choice: RestartChoice | None = None) -> RestartView:
        """What a restart would do. `choice` says where it begins. Without a choice, a failed run repeats what failed, and a pipeline's run
        that did not fail begins at its first node; a worker's run that did not fail cannot be repeated unchanged, so `problem` says why.
        Without a choice, a function begins at its last failed operation; it begins at its beginning if there is none, or if its code is not
        in this process. If no restart is possible, `refusal` says why. Raises ExecutionNotFound if there is no such run, or if the caller
        may not see it."""
        header = self._viewer.find(execution)
        accepted = accepted_in(self._viewer.store, header)
        blank = RestartView(header=header, status=self._viewer.status(header), is_run=accepted is not None)
        try:
            check_restartable(header)
        except RestartRefused as refused:
            return msgspec.structs.replace(blank, refusal=str(refused))
        if accepted is None:
            return self._execution(header, choice, blank)
        return self._run(header, accepted, choice, blank)

    def start(self, execution: str, choice: RestartChoice) -> str:
        """Start the restart that `view` shows. Returns the id of the new run or execution. Raises an error if the restart is not
        possible."""
        header = self._viewer.find(execution)
        accepted = accepted_in(self._viewer.store, header)
        if accepted is None:
            return self._start_execution(header, choice)
        asked, service = self._asked(header, accepted, choice), self._service(header)
        served = self._viewer.served
        if service is not None and served is not None:
            return served.do(lambda: restart_run(service, header.id, self._viewer.caller, asked))[0].id
        viewer = self._viewer
        prepared = prepare(viewer.store, header.id, viewer.caller, asked)
        return restart_in_store(viewer.store, prepared, viewer.caller, viewer.clock, viewer.ids).id

    # --- runs

    def _run(self, header: Execution, accepted: AcceptedRequest, choice: RestartChoice | None, blank: RestartView) -> RestartView:
        viewer = self._viewer
        picture = pipeline_view(viewer.store, header, accepted)
        contract = contract_of(viewer, header, accepted, now=True)
        response = response_of(viewer.store, header, accepted)
        fails = response.status is not ResponseStatus.OK or response.observability.partial
        shown, veil = self._shown(header, accepted), Veil(viewer, header)
        view = msgspec.structs.replace(
            blank,
            is_pipeline=picture is not None,
            can_retry=fails,
            shown=encoded(shown),
            places=_nodes(picture),
            cut=picture is not None and len(picture.nodes) > MOST_PLACES,
        )
        choice = choice or RestartChoice(place="" if fails or picture is None else picture.nodes[0].node)
        view = msgspec.structs.replace(
            view, choice=choice, may_cost=_cap(accepted), may_use=accepted.limits.max_tokens, last_cost=_cost(header)
        )
        try:
            asked = self._asked(header, accepted, choice)
            view = msgspec.structs.replace(view, edited=asked.inputs is not None)
            if asked.inputs is not None and contract is not None:
                who = f"{accepted.tenant}/{contract.worker_id}"
                found = problems_now(contract.input_schema, asked.inputs, who)
                view = msgspec.structs.replace(view, problems=tuple(veil.text(told_of((one,))) for one in found[:20]))
            prepared = prepare(viewer.store, header.id, viewer.caller, asked, self._service(header))
        except (HoldfastError, ValueError) as wrong:
            return msgspec.structs.replace(view, problem=veil.text(str(wrong)))
        plan = prepared.plan
        if plan.nodes:
            by_node = {one.node: one for one in plan.nodes}
            places = tuple(msgspec.structs.replace(one, plan=by_node.get(one.key)) for one in view.places)
            may = view.may_cost if plan.may_cost_usd is None else nanos_of(plan.may_cost_usd)
            use = view.may_use if plan.may_use_tokens is None else plan.may_use_tokens
            view = msgspec.structs.replace(view, places=places, last_cost=nanos_of(plan.last_cost_usd), may_cost=may, may_use=use)
        redone = {one.node for one in plan.nodes if one.what != "reused"}
        return msgspec.structs.replace(view, writes=self._writes(header, accepted, picture, redone))

    def _asked(self, header: Execution, accepted: AcceptedRequest, choice: RestartChoice) -> RestartAsked:
        original, inputs = accepted.request.inputs, None
        if choice.text is not None:
            edited = with_secrets(_read(choice.text), self._shown(header, accepted), original)
            if not isinstance(edited, dict):
                raise InvalidRequest("The inputs must be a JSON object: {…}.")
            inputs = None if same(edited, original) else edited
        if not choice.place and inputs is None and not choice.resend:
            return RETRY
        return RestartAsked(nodes=(choice.place,) if choice.place else (), inputs=inputs, resend=choice.resend)

    def _shown(self, header: Execution, accepted: AcceptedRequest) -> Any:
        """The inputs of the earlier run. A placeholder is in each place that is secret in the contract of that run or in the present
        contract."""
        then, now = (contract_of(self._viewer, header, accepted, now=is_now) for is_now in (False, True))
        shown = without_secrets(accepted.request.inputs, then)
        return shown if now is then or now is None else without_secrets(shown, now)

    def _service(self, header: Execution) -> Any:
        served = self._viewer.served
        return None if served is None or served.workers is None or not served.contracts(header.function) else served.workers

    def _writes(
        self, header: Execution, accepted: AcceptedRequest, picture: PipelineView | None, redone: set[str]
    ) -> tuple[MadeWrite, ...]:
        """The writes that the earlier run made in the parts that run again (`redone`: the names of these nodes), up to a bound. Without a
        `picture`, the whole run is one part."""
        viewer, own = self._viewer, Veil(self._viewer, header)
        found: list[MadeWrite] = []
        runs = [("", header.id)]
        if picture is not None:
            runs = [(node.node, run) for node in picture.nodes if node.node in redone for run in picture.runs_of(node.node)]
        for node, run in runs[:_MOST_RUNS]:
            try:
                child, order = find_run(viewer.store, run, viewer.caller)
            except HoldfastError:
                continue
            veil = Veil(viewer, child)
            for made in calls_of(viewer.store, child, order):
                failed = made.receipt is not None and (made.receipt.error is not None or made.receipt.void)
                if made.intent.write and not failed and len(found) < _MOST_WRITES:
                    known = made.receipt is not None
                    arguments = own.value(veil.value(made.intent.arguments))
                    found.append(MadeWrite(node=node, run=run, tool=made.intent.tool, arguments=arguments, known=known))
        return tuple(found)

    # --- executions

    def _execution(self, header: Execution, choice: RestartChoice | None, blank: RestartView) -> RestartView:
        viewer = self._viewer
        function = None if viewer.served is None else viewer.served.function(header.function)
        operations = [op for op in viewer.store.outline(header.id) if op.type is not Type.EXECUTION]
        shown = viewer.store.history(header.id, 0, 1)[0].event.payload or "null"
        failed = header.status in FAILED_STATUSES
        view = msgspec.structs.replace(
            blank,
            shown=shown,
            can_retry=failed,
            needs_code=function is None,
            places=() if function is None else tuple(map(_place, operations[:MOST_PLACES])),
            cut=len(operations) > MOST_PLACES,
            last_cost=_cost(header),
        )
        if choice is None:
            broken = next((op.id for op in reversed(operations[:MOST_PLACES]) if op.status in _BROKEN), "")
            choice = RestartChoice(place=broken if function is not None else "")
        view = msgspec.structs.replace(view, choice=choice)
        try:
            text = _input(choice)
            view = msgspec.structs.replace(view, edited=text is not None and is_edited(text, shown))
            prepared = self._prepared(header, choice, text)
        except (HoldfastError, ValueError) as wrong:
            return msgspec.structs.replace(view, problem=str(wrong))
        kept = () if prepared is None else tuple(op.name or op.id for op in prepared.prefix.operations)
        again = tuple(op.name or op.id for op in operations) if prepared is None else prepared.again
        return msgspec.structs.replace(view, kept=kept, again=again)

    def _prepared(self, header: Execution, choice: RestartChoice, text: str | None) -> PreparedExecution | None:
        """What a restart from the chosen operation needs. None if the person chose no operation: the execution then restarts from its
        beginning. Raises RestartRefused if this process does not have the code of the function."""
        if not choice.place:
            return None
        function = None if self._viewer.served is None else self._viewer.served.function(header.function)
        if function is None:
            raise RestartRefused(
                f"The code of {header.function} is not in this process, so its history cannot be replayed here. "
                "Restart from the beginning, or open the console of the server that has the code."
            )
        return prepare_execution(self._viewer.store, header.id, function, choice.place, text)

    def _start_execution(self, header: Execution, choice: RestartChoice) -> str:
        viewer, text = self._viewer, _input(choice)
        prepared, now = self._prepared(header, choice, text), viewer.now
        identity = viewer.ids(now)
        if prepared is not None:
            write = prepared.write(identity, now, viewer.caller)
        else:
            given = text if text is not None else viewer.store.history(header.id, 0, 1)[0].event.payload or "null"
            notes = viewer.caller.did("restart", header.id, f"as {identity}", now)
            write = restarted(header, identity, now, payload=given, restart=Restart(header.id), notes=notes)
        started = written(viewer.store, write, now)
        if viewer.served is not None:
            viewer.served.look_for_work()
        return started.id


def _nodes(picture: PipelineView | None) -> tuple[RestartPlace, ...]:
    nodes: Sequence[Any] = () if picture is None else picture.nodes
    return tuple(RestartPlace(key=one.node, name=one.node, kind=one.kind, state=one.state, note=one.error_code or "") for one in nodes)


def _place(op: Operation) -> RestartPlace:
    kind = (op.sub_type or op.type.value).lower().replace("_", " ")
    return RestartPlace(key=op.id, name=op.name or op.id, kind=kind, state=op.status.value.lower().replace("_", " "))


def is_edited(text: str, before: str) -> bool:
    """Whether a person changed the input `before` of an execution to `text`. `before` need not be JSON: the serdes of a handler may have
    written it. Then the texts themselves are compared."""
    try:
        old = loads(before.strip() or "null")
    except ValueError:
        return text.strip() != before.strip()
    return not same(_read(text), old)


def _read(text: str) -> Any:
    try:
        return loads(text.strip() or "null")
    except ValueError as wrong:
        raise InvalidRequest(f"The input is not JSON: {wrong}") from None


def _input(choice: RestartChoice) -> str | None:
    """The input that the person chose, as a JSON text; None means the input of the earlier execution. Raises InvalidRequest if the form's
    text is not JSON."""
    if choice.text is None:
        return None
    _read(choice.text)
    return choice.text.strip() or "null"


def _cap(accepted: AcceptedRequest) -> int | None:
    cap = accepted.limits.max_cost_usd
    return None if cap is None else nanos_of(cap)


def _cost(header: Execution) -> int | None:
    return None if header.summary is None else header.summary.cost
